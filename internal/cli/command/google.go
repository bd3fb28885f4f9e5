package command

import (
	"fmt"
	"os"
	"path/filepath"

	"perigee/internal/account/adc"
	"perigee/internal/store/config"
)

// A GoogleLogin is what is known about the Google Cloud credentials of this machine. Err is why they
// cannot be used.
type GoogleLogin struct {
	Project string // which they name; may be empty
	Found   bool
	Err     error
}

// FindGoogleLogin looks for credentials in the file that Google's libraries read. It asks no server.
func FindGoogleLogin() (l GoogleLogin) {
	l.Project, l.Found, l.Err = adc.Find()
	if project := os.Getenv("GOOGLE_CLOUD_PROJECT"); project != "" {
		l.Project = project
	}
	return l
}

// Upstream returns the upstream with these credentials, nil if there are none.
func (l GoogleLogin) Upstream() (*config.CloudUpstream, error) {
	if !l.Found {
		return nil, nil
	}
	u := &config.CloudUpstream{Project: l.Project, Location: os.Getenv("GOOGLE_CLOUD_LOCATION")}
	if why := config.CheckLocation(u.Location); why != "" {
		return nil, fmt.Errorf("GOOGLE_CLOUD_LOCATION: %s; correct it, or unset it", why)
	}
	if why := config.CheckProject(u.Project); why != "" {
		return nil, fmt.Errorf("the project in GOOGLE_CLOUD_PROJECT or in the Google credentials: %s; set GOOGLE_CLOUD_PROJECT to the ID of yours", why)
	}
	// Another shell may lack the variable.
	if file := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"); file != "" {
		path, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		u.Credentials = "file:" + path
	}
	return u, nil
}

// Advice returns how credentials that were found are used where there is no configuration, or the other
// text if there are none.
func (l GoogleLogin) Advice(otherwise string) string {
	if !l.Found {
		return otherwise
	}
	return "perigee config init writes a configuration with your Google Cloud login"
}
