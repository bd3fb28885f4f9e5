package simulator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Account is an account that can sign in.
type Account struct {
	Email string `yaml:"email" json:"email"`
	// RefreshToken is accepted from the start, as if the account had signed in before. If it is
	// empty, the account must sign in.
	RefreshToken string `yaml:"refresh_token" json:"-"`
	// Project is the managed project; the account has it from the start unless NotOnboarded.
	Project string `yaml:"project" json:"project"`
	// OwnProjects are further projects the account may name.
	OwnProjects []string `yaml:"own_projects" json:"own_projects,omitempty"`
	// Tier is free-tier, standard-tier, g1-pro-tier or g1-ultra-tier.
	Tier         string `yaml:"tier" json:"tier"`
	NotOnboarded bool   `yaml:"not_onboarded" json:"not_onboarded,omitempty"`
	// unfinished answers of onboardUser; one if 0
	OnboardPolls    int  `yaml:"onboard_polls" json:"onboard_polls,omitempty"`
	Banned          bool `yaml:"banned" json:"banned,omitempty"`
	NeedsValidation bool `yaml:"needs_validation" json:"needs_validation,omitempty"`
	Credits         int  `yaml:"credits" json:"credits,omitempty"`
	// ProjectAsObject makes loadCodeAssist give the project as {"id": …} instead of a string.
	ProjectAsObject bool `yaml:"project_as_object" json:"project_as_object,omitempty"`
	// Models are the IDs of the models that this account has; empty for all.
	Models []string `yaml:"models" json:"models,omitempty"`
	Limits Limits   `yaml:"limits" json:"limits"`
}

// Limits are the requests an account may make per quota group; 0 takes the default, negative means
// no limit.
type Limits struct {
	FiveHour  int `yaml:"five_hour" json:"five_hour,omitempty"`
	Weekly    int `yaml:"weekly" json:"weekly,omitempty"`
	PerMinute int `yaml:"per_minute" json:"per_minute,omitempty"` // 0 means no limit
}

const (
	defaultFiveHour = 10_000
	defaultWeekly   = 100_000
	tokenLifetime   = 3599 * time.Second
	codeLifetime    = 10 * time.Minute
)

// DefaultAccounts returns the accounts of a simulator without configured ones: one free, one paid
// with credits, and one that has not been onboarded.
func DefaultAccounts() []Account {
	return []Account{
		{Email: "ada@example.com", RefreshToken: "sim-refresh-ada", Project: "sim-project-ada", Tier: "free-tier"},
		{Email: "bob@example.com", RefreshToken: "sim-refresh-bob", Project: "sim-project-bob", Tier: "g1-pro-tier",
			Credits: 25_000, ProjectAsObject: true},
		{Email: "cyd@example.com", RefreshToken: "sim-refresh-cyd", Project: "sim-project-cyd", Tier: "free-tier", NotOnboarded: true},
	}
}

// account is an Account with its state.
type account struct {
	Account
	id        string // the subject id of userinfo
	onboarded bool
	polls     int // unfinished onboardUser answers given so far
	quota     quota
}

func (a *account) hasProject(project string) bool {
	return a.onboarded && project == a.Project || slices.Contains(a.OwnProjects, project)
}

// accessToken is a token of an account, or of a service account, with its scopes.
type accessToken struct {
	account *account
	service string // the email of a service account, if account is nil
	scope   string
	expires time.Time
}

type refreshToken struct {
	account   *account
	client    string // the client ID it is bound to; empty if not bound yet
	successor string // set once rotated
	dead      bool
}

type authCode struct {
	account     *account
	client      string
	redirectURI string
	challenge   string
	expires     time.Time
}

// directory is the accounts and every token issued for them, and the API keys. The mutex guards
// their state too.
type directory struct {
	mu       sync.Mutex
	key      []byte
	accounts []*account
	keys     []*apiKey // none: any key will do
	access   map[string]*accessToken
	refresh  map[string]*refreshToken
	codes    map[string]*authCode
	issued   int
}

func newDirectory(key []byte, accounts []Account, keys []APIKey) (*directory, error) {
	apiKeys, err := newKeys(keys)
	if err != nil {
		return nil, err
	}
	d := &directory{key: key, keys: apiKeys, access: map[string]*accessToken{}, refresh: map[string]*refreshToken{}, codes: map[string]*authCode{}}
	for i, given := range accounts {
		if given.Email == "" {
			return nil, fmt.Errorf("simulator: account %d has no email", i+1)
		}
		if d.byEmail(given.Email) != nil {
			return nil, fmt.Errorf("simulator: account %s is listed twice", given.Email)
		}
		if given.Project == "" {
			given.Project = "sim-project-" + strconv.Itoa(i+1)
		}
		if given.Tier == "" {
			given.Tier = freeTier
		}
		a := &account{Account: given, id: fmt.Sprintf("1%020d", i+1), onboarded: !given.NotOnboarded, quota: newQuota(given.Limits)}
		d.accounts = append(d.accounts, a)
		if given.RefreshToken != "" {
			if d.refresh[given.RefreshToken] != nil {
				return nil, fmt.Errorf("simulator: account %s shares its refresh token with another", given.Email)
			}
			d.refresh[given.RefreshToken] = &refreshToken{account: a}
		}
	}
	if len(d.accounts) == 0 {
		return nil, errors.New("simulator: no accounts")
	}
	return d, nil
}

func (d *directory) byEmail(email string) *account {
	for _, a := range d.accounts {
		if a.Email == email {
			return a
		}
	}
	return nil
}

// signIn picks the account of a sign-in page: the hinted one, or the first.
func (d *directory) signIn(hint string) *account {
	d.mu.Lock()
	defer d.mu.Unlock()
	if hint == "" {
		return d.accounts[0]
	}
	return d.byEmail(hint)
}

// opaque makes the next unguessable-looking name of a kind; with the same seed and history it is
// the same.
func (d *directory) opaque(kind string) string {
	d.issued++
	h := hmac.New(sha256.New, d.key)
	fmt.Fprintf(h, "%s\x00%d", kind, d.issued)
	return "sim-" + kind + "-" + hex.EncodeToString(h.Sum(nil)[:16])
}

func (d *directory) issueAccess(a *account, now time.Time) string {
	return d.keepAccess(accessToken{account: a, expires: now.Add(tokenLifetime)}, now)
}

// keepAccess names a new token. Tokens are forgotten an hour after they have expired.
func (d *directory) keepAccess(given accessToken, now time.Time) string {
	for token, old := range d.access {
		if now.Sub(old.expires) > time.Hour {
			delete(d.access, token)
		}
	}
	token := d.opaque("access")
	d.access[token] = &given
	return token
}

func (d *directory) issueRefresh(a *account, client string) string {
	token := d.opaque("refresh")
	d.refresh[token] = &refreshToken{account: a, client: client}
	return token
}

// bearer returns the account of an access token that is known and has not expired, or nil.
func (d *directory) bearer(token string, now time.Time) *account {
	d.mu.Lock()
	defer d.mu.Unlock()
	if found := d.access[token]; found != nil && now.Before(found.expires) {
		return found.account
	}
	return nil
}

// owner returns the email that an access or refresh token was issued to, valid or not.
func (d *directory) owner(token string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if found := d.access[token]; found != nil {
		return found.owner()
	}
	if found := d.refresh[token]; found != nil {
		return found.account.Email
	}
	return ""
}

// ownsProject reports whether the project is one of the account's own.
func (d *directory) ownsProject(a *account, project string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(a.OwnProjects, project)
}
