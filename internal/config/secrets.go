package config

import (
	"net/url"
	"reflect"

	"perigee"
)

// Secrets returns all secrets of a configuration. Of a URL, the password counts.
func (c *Config) Secrets() []perigee.Secret {
	return secretsIn(reflect.ValueOf(c).Elem(), nil)
}

func secretsIn(v reflect.Value, found []perigee.Secret) []perigee.Secret {
	if s, ok := v.Interface().(perigee.Secret); ok {
		value := s.Reveal()
		if u, err := url.Parse(value); err == nil && u.Scheme != "" && u.Host != "" {
			value, _ = u.User.Password()
		}
		if value != "" {
			found = append(found, perigee.NewSecret(value))
		}
		return found
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				found = secretsIn(v.Field(i), found)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			found = secretsIn(v.Index(i), found)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			found = secretsIn(v.Elem(), found)
		}
	}
	return found
}
