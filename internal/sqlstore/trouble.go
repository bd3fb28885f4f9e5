package sqlstore

import (
	"context"
	"errors"

	"perigee"
)

// explain turns trouble with the database into an error that says what to do about it. Errors that say
// so already, and the end of a context, stay as they are.
func (s *Store) explain(doing string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, ok := errors.AsType[*perigee.Error](err); ok {
		return err
	}
	class, next := perigee.ClassUnavailable, "check the database and the way to it"
	if !errors.Is(err, errNoAnswer) {
		class, next = s.engine.advice(err)
	}
	e := perigee.Errorf(class, "%s %s: %w", doing, s.engine.name(), err).WithNext("%s", next)
	e.Ours = "perigee cannot use its database at the moment"
	return e
}
