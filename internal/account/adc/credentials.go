package adc

import (
	"cmp"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/oauth2/google/externalaccount"

	"perigee"
	"perigee/internal/lib/netguard"
	"perigee/internal/lib/redact"
)

// The variables that Google's libraries read.
const (
	variableFile     = "GOOGLE_APPLICATION_CREDENTIALS"
	variableQuota    = "GOOGLE_CLOUD_QUOTA_PROJECT"
	variableMetadata = "GCE_METADATA_HOST"
	variableRun      = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES"
)

// logIn is the command with which a person signs in for all programs on the machine.
const logIn = "gcloud auth application-default login"

// A place is where credentials are, with what shows that they have changed.
type place struct {
	path     string // of a file
	metadata string // the host of the metadata server, if path is empty
	size     int64
	modified time.Time
}

// locate finds the credentials.
func locate(from string) (place, error) {
	path := ""
	switch {
	case from == FromMetadata:
		return place{metadata: cmp.Or(os.Getenv(variableMetadata), "metadata.google.internal")}, nil
	case from != FromAuto:
		path = from[len(FromFile):]
	case os.Getenv(variableFile) != "":
		path = os.Getenv(variableFile)
	default:
		var err error
		if path, err = gcloudFile(); err != nil {
			return place{}, missing(err.Error())
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			if host := os.Getenv(variableMetadata); host != "" {
				return place{metadata: host}, nil
			}
			return place{}, missing(variableFile + " is not set, and " + path + " does not exist")
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return place{}, unreadable(path, reason(err))
	}
	if why := unfit(info); why != "" {
		return place{}, unreadable(path, why)
	}
	return place{path: path, size: info.Size(), modified: info.ModTime()}, nil
}

// Find returns the project of the credentials in the file that FromAuto reads, which is empty if they
// name none. found is false if there is no file; a file that cannot be used is an error. No server is
// asked.
func Find() (project string, found bool, err error) {
	at, err := locate(FromAuto)
	if err != nil && os.Getenv(variableFile) == "" || err == nil && at.path == "" {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	c := load(at)
	if c.broken != nil {
		return "", false, c.broken
	}
	return c.project(), true, nil
}

// gcloudFile returns the path of the file that gcloud writes.
func gcloudFile() (string, error) {
	const name = "application_default_credentials.json"
	if runtime.GOOS == "windows" {
		return filepath.Join(os.Getenv("APPDATA"), "gcloud", name), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".config", "gcloud", name), err
}

// maxFile is the maximum size of a file with credentials.
const maxFile = 1 << 20

// unfit returns why a file cannot have credentials, or "". It is known before the file is opened:
// opening a pipe waits for a writer.
func unfit(info fs.FileInfo) string {
	switch {
	case info.IsDir():
		return "it is a directory"
	case !info.Mode().IsRegular():
		return "it is a pipe or a device, and not a file"
	case info.Size() > maxFile:
		return "it is larger than 1 MB"
	}
	return ""
}

// readFile returns the content of a file with credentials, or why it cannot be read. A pipe that has
// taken the place of the file does not make it wait.
func readFile(path string) (content []byte, why string) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, reason(err)
	}
	if why := unfit(info); why != "" {
		return nil, why
	}
	content, err = io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, reason(err)
	}
	return content, ""
}

// reason returns the cause of an error about a file without its path.
func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// missing returns the error for credentials that are not there.
func missing(why string) error {
	return &perigee.Error{Class: perigee.ClassUnauthenticated, Message: "no Google credentials: " + why,
		Hint:   "run " + logIn + ", or set credentials or keys of the upstream",
		Public: "there are no Google credentials", PublicHint: "run " + logIn + " on the machine that runs perigee", Fix: logIn}
}

// unreadable returns the error for a file that has no usable credentials.
func unreadable(path, why string) error {
	e := &perigee.Error{Class: perigee.ClassUnauthenticated, Message: fmt.Sprintf("the Google credentials in %s cannot be used: %s", path, why),
		Hint:   "run " + logIn + ", or correct the file",
		Public: "the Google credentials cannot be used", PublicHint: "perigee doctor shows why; run " + logIn + " on the machine that runs perigee"}
	if e.Fix, e.Setting = signIn(path); e.Fix == "" {
		e.Hint = "correct the file, or use the one that " + logIn + " writes: " + useGcloud
	}
	return e
}

// useGcloud is how credentials of another file are replaced by those that gcloud writes.
const useGcloud = "remove credentials of the upstream, or unset " + variableFile + " and restart perigee"

// signIn returns the command that replaces the credentials in a file of gcloud, or the setting that
// names another file.
func signIn(path string) (fix, setting string) {
	if own, err := gcloudFile(); err == nil && path == own {
		return logIn, ""
	}
	return "", "credentials"
}

// The types of files.
const (
	typeUser         = "authorized_user"
	typeService      = "service_account"
	typeImpersonated = "impersonated_service_account"
	typeExternal     = "external_account"
	typeExternalUser = "external_account_authorized_user"
)

// A file has the members of a file with credentials, of all types.
type file struct {
	Type    string `json:"type"`
	Project string `json:"project_id"`
	Quota   string `json:"quota_project_id"`

	ClientEmail  string `json:"client_email"`
	PrivateKeyID string `json:"private_key_id"`
	PrivateKey   string `json:"private_key"`
	TokenURI     string `json:"token_uri"`

	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	RefreshToken string `json:"refresh_token"`

	Source           *file    `json:"source_credentials"`
	ImpersonationURL string   `json:"service_account_impersonation_url"`
	Delegates        []string `json:"delegates"`
	Impersonation    struct {
		Seconds int `json:"token_lifetime_seconds"`
	} `json:"service_account_impersonation"`

	Audience         string                            `json:"audience"`
	SubjectTokenType string                            `json:"subject_token_type"`
	TokenURL         string                            `json:"token_url"`
	CredentialSource *externalaccount.CredentialSource `json:"credential_source"`
	WorkforceProject string                            `json:"workforce_pool_user_project"`
}

// credentials are what was read at a place.
type credentials struct {
	at      place
	file    *file // nil for the metadata server
	broken  error // why they cannot be used; nil if they can
	torn    bool  // the file is no JSON object
	secrets []perigee.Secret
}

// load reads the credentials at a place.
func load(at place) *credentials {
	c := &credentials{at: at}
	if at.path == "" {
		return c
	}
	content, why := readFile(at.path)
	if why != "" {
		c.broken = unreadable(at.path, why)
		return c
	}
	c.file = &file{}
	if err := json.Unmarshal(content, c.file); err != nil {
		c.torn, c.broken = true, unreadable(at.path, "it is not a JSON object with credentials") // the cause may repeat a part of it
	} else if why := c.file.lacks(); why != "" {
		c.broken = unreadable(at.path, why)
	}
	c.secrets = c.file.secrets()
	return c
}

// minLine is the minimum length of a line of a private key that is a secret.
const minLine = 16

// secrets returns the secrets of a file. Each line of a private key is one of its own: JSON in a
// string of JSON has any number of characters between the lines.
func (f *file) secrets() (list []perigee.Secret) {
	add := func(value string) {
		if value != "" {
			list = append(list, perigee.NewSecret(value))
		}
	}
	for ; f != nil; f = f.Source {
		add(f.PrivateKey)
		add(f.ClientSecret)
		add(f.RefreshToken)
		for line := range strings.Lines(f.PrivateKey) {
			if line = strings.TrimSpace(line); len(line) >= minLine && !strings.HasPrefix(line, "-----") {
				add(line)
			}
		}
		if f.CredentialSource == nil {
			continue
		}
		for name, value := range f.CredentialSource.Headers {
			if redact.IsHeader(name) {
				add(value)
			}
		}
	}
	return list
}

// lacks returns why the credentials cannot be used, or "".
func (f *file) lacks() string {
	required := map[string]string{}
	switch f.Type {
	case typeUser:
		required = map[string]string{"client_id": f.ClientID, "client_secret": f.ClientSecret, "refresh_token": f.RefreshToken}
	case typeExternalUser:
		required = map[string]string{"client_id": f.ClientID, "client_secret": f.ClientSecret, "refresh_token": f.RefreshToken, "token_url": f.TokenURL}
	case typeService:
		required = map[string]string{"client_email": f.ClientEmail, "private_key": f.PrivateKey}
		if f.PrivateKey != "" && !isKey(f.PrivateKey) {
			return "private_key is not the private key of a service account, which is an RSA key in PEM form"
		}
	case typeImpersonated:
		required["service_account_impersonation_url"] = f.ImpersonationURL
		if f.Source == nil {
			return "source_credentials are missing"
		}
		if why := f.Source.lacks(); why != "" {
			return "source_credentials: " + why
		}
	case typeExternal:
		required = map[string]string{"audience": f.Audience, "subject_token_type": f.SubjectTokenType}
		if f.CredentialSource == nil {
			return "credential_source is missing"
		}
		if f.CredentialSource.Executable != nil && os.Getenv(variableRun) != "1" {
			return "credential_source runs a program, which " + variableRun + "=1 allows"
		}
	case "":
		return "type is missing"
	default:
		return fmt.Sprintf("type %q is not supported", perigee.Clip(f.Type, 100))
	}
	for _, name := range []string{"client_id", "client_secret", "refresh_token", "token_url", "client_email", "private_key",
		"service_account_impersonation_url", "audience", "subject_token_type"} {
		if value, ok := required[name]; ok && value == "" {
			return name + " is missing"
		}
	}
	for _, address := range []string{f.TokenURI, f.TokenURL, f.ImpersonationURL} {
		if address != "" && !isSafe(address) {
			return "the address of its token server must begin with https://"
		}
	}
	return ""
}

// isKey reports whether a text is a private key that requests for tokens are signed with.
func isKey(text string) bool {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return false
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		_, ok := key.(*rsa.PrivateKey)
		return ok
	}
	_, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	return err == nil
}

// isSafe reports whether credentials can be sent to an address: with TLS, or within the machine.
func isSafe(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && netguard.IsLoopback(u.Hostname()))
}

// project returns the project of credentials in a file, or "".
func (c *credentials) project() string { return cmp.Or(c.file.Project, c.file.Quota) }

// quota returns the project that calls are charged to, or "".
func (c *credentials) quota() string {
	if c.file == nil {
		return os.Getenv(variableQuota)
	}
	return cmp.Or(os.Getenv(variableQuota), c.file.Quota)
}
