//go:build !linux

package redirect

import (
	"context"
	"errors"
)

var errNotHere = errors.New("a redirect needs Linux")

func systemID() string { return "" }

func othersCanChange(string) (bool, error) { return false, errNotHere }

func lock(context.Context, string) (func(), error) { return nil, errNotHere }

func (c chain) exists() (bool, error) { return false, errNotHere }

func (c chain) removeEmpty() error { return errNotHere }
