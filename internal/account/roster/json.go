package roster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"perigee"
	"perigee/internal/account/oauth"
	"perigee/internal/lib/rawjson"
)

// members are the members of a JSON object. They are decoded one by one, so that a member of the
// wrong type does not affect its neighbours.
type members map[string]json.RawMessage

func parseJSON(data []byte, now time.Time) (*accountList, error) {
	if err := rawjson.Check(data); err != nil {
		// The text that the checker quotes may be part of a token.
		if e, ok := errors.AsType[*rawjson.Error](err); ok {
			return nil, unusableFile("it is damaged at line %d, column %d", e.Line, e.Column)
		}
		return nil, unusableFile("it is damaged")
	}
	if data[0] == '[' {
		return parseEntries(data, now)
	}
	var top members
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, unusableFile("it is damaged")
	}
	alone := slices.Concat([]byte("["), data, []byte("]"))
	if kind, ok := top.text("type"); ok {
		if kind != "antigravity" {
			return nil, unusableFile("it is a credential for a service other than Antigravity")
		}
		return parseEntries(alone, now)
	}
	accounts, ok := top["accounts"]
	if _, hasToken := top.text("refresh_token", "refreshToken"); hasToken && !ok {
		return parseEntries(alone, now)
	}
	if !ok || accounts[0] != '[' {
		return nil, unknownFormat("its format is unknown")
	}
	if version, ok := top["version"]; ok && !slices.Contains([]string{"1", "2", "3", "4"}, string(version)) {
		return nil, unusableFile("perigee does not support its version")
	}
	list, err := parseEntries(accounts, now)
	if err == nil {
		list.Active = top.active(accounts)
	}
	return list, err
}

// An entry is an account with its place in the file.
type entry struct {
	perigee.SignIn
	line int
	used time.Time // when it was used last
}

// parseEntries reads a JSON array of accounts.
func parseEntries(data []byte, now time.Time) (*accountList, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, unusableFile("it is damaged")
	}
	list := &accountList{}
	var entries []entry
	for i, text := range raw {
		e := entry{line: i}
		problem, note := e.read(text, now)
		list.Lines = append(list.Lines, FileLine{Where: fmt.Sprintf("account %d", i+1), Email: e.Email, Problem: problem, Note: note,
			Nameless: problem == "" && e.Email == ""})
		if problem == "" {
			entries = append(entries, e)
		}
	}
	list.take(entries)
	return list, nil
}

// take keeps one entry for each person: the one that was used, or else added, last.
func (i *accountList) take(entries []entry) {
	newest := map[string]entry{} // by email and by token
	for _, e := range entries {
		for _, name := range e.names() {
			if known, ok := newest[name]; !ok || e.newer(known) {
				newest[name] = e
			}
		}
	}
	for _, e := range entries {
		lost := slices.IndexFunc(e.names(), func(name string) bool { return newest[name].line != e.line })
		if lost >= 0 {
			line := &i.Lines[e.line]
			line.Nameless, line.Note = false, "the same account as "+i.Lines[newest[e.names()[lost]].line].Where+", which is newer"
			continue
		}
		i.Accounts = append(i.Accounts, e.SignIn)
	}
}

// names returns the identifiers of the account: two entries that share one are the same person.
func (e *entry) names() []string {
	names := []string{"token " + e.Refresh.Reveal()}
	if e.Email != "" {
		names = append(names, "email "+e.Email)
	}
	return names
}

func (e *entry) newer(than entry) bool {
	return cmp.Or(e.used.Compare(than.used), e.Added.Compare(than.Added), cmp.Compare(e.line, than.line)) > 0
}

// read reads one account. problem is empty if it can be used.
func (e *entry) read(raw json.RawMessage, now time.Time) (problem, note string) {
	var m members
	if json.Unmarshal(raw, &m) != nil || m == nil {
		return "it is not an object", ""
	}
	text, ok := m.text("email")
	if email, plausible := oauth.Address(text); plausible {
		e.Email = email
	} else if email != "" || !ok && m["email"] != nil {
		return "email is not a valid address", ""
	}
	refresh, ok := m.text("refresh_token", "refreshToken")
	token, projects, _ := strings.Cut(strings.TrimSpace(refresh), "|") // the project may follow the token
	switch {
	case !ok && (m["api_key"] != nil || m["apiKey"] != nil):
		return "it has an API key instead of a refresh token", ""
	case token == "":
		return "it has no refresh token", ""
	case !plausibleToken(token):
		return "its refresh token is damaged", ""
	}
	e.Refresh = perigee.NewSecret(token)
	e.readProject(m, projects)
	e.readState(m)
	e.Added, e.used = m.moment("addedAt", "added_at", "created_at"), m.moment("lastUsed", "last_used")
	dropped := e.readLimits(m, now)
	if fingerprint := m["fingerprint"]; len(fingerprint) > len("{}") && fingerprint[0] == '{' {
		dropped = append(dropped, "its device fingerprint, because perigee imitates no device")
	}
	return "", dropNote(dropped)
}

// readProject takes the project that the user chose, or else the one that the provider made.
func (e *entry) readProject(m members, packed string) {
	chosen, made, _ := strings.Cut(packed, "|")
	own, _ := m.text("project_id", "projectId")
	managed, _ := m.text("managedProjectId", "managed_project_id")
	e.ProjectID = strings.TrimSpace(cmp.Or(own, chosen, managed, made))
}

// readState takes over the state that a file records for an account. A refresh token that another
// program has marked as invalid is accepted: the next refresh will show whether it works.
func (e *entry) readState(m members) {
	e.Enabled = !m.is("enabled", false) && !m.is("disabled", true) // old files have neither
	e.State = perigee.AccountUntested
	if m.is("tested", true) { // only encodeAccounts writes that, after a sign-in
		e.State = perigee.AccountReady
	}
	if state, _ := m.text("state"); state == perigee.AccountBanned { // as encodeAccounts writes it
		reason, _ := m.text("reason")
		e.State, e.Reason = perigee.AccountBanned, cmp.Or(oneLine(reason), "the provider has disabled this account")
	}
	if m.is("verificationRequired", true) {
		e.State = perigee.AccountVerification
		reason, _ := m.text("verificationRequiredReason")
		e.Reason = cmp.Or(oneLine(reason), "the provider requires the owner of this account to verify it")
		if link, _ := m.text("verificationUrl"); isLink(link) && !strings.Contains(e.Reason, link) {
			e.Reason += " (" + link + ")"
		}
	}
}

// mostWords is the maximum length in characters of a file's remark about an account, not counting
// the links in it.
const mostWords = 1000

// oneLine returns a text of a file as one line of at most mostWords characters. Links are kept
// whole whatever their length.
func oneLine(text string) string {
	var kept []string
	room := mostWords
	for word := range strings.FieldsFuncSeq(text, notPrinted) {
		switch letters := []rune(word); {
		case strings.Contains(word, "https://") || strings.Contains(word, "http://"):
			kept = append(kept, word)
		case room > 0:
			kept = append(kept, string(letters[:min(len(letters), room)]))
			room -= len(letters) + 1
		}
	}
	return strings.Join(kept, " ")
}

// isLink reports whether a text is an address that a person can open.
func isLink(text string) bool {
	return (strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://")) && !strings.ContainsFunc(text, notPrinted)
}

// notPrinted reports whether a character is white space, a control character or invisible.
func notPrinted(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }

// plausibleToken reports whether a text can be a token; one that was cut out of a wrapped line
// cannot. It does not interpret the characters.
func plausibleToken(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool { return notPrinted(r) || r == utf8.RuneError })
}

// text returns the first of the members that is a string.
func (m members) text(names ...string) (value string, ok bool) {
	for _, name := range names {
		if raw := m[name]; len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &value) == nil {
			return value, true
		}
	}
	return "", false
}

func (m members) is(name string, want bool) bool {
	var value bool
	raw, ok := m[name]
	return ok && string(raw) != "null" && json.Unmarshal(raw, &value) == nil && value == want
}

// moment reads a time, written in milliseconds or seconds since 1970 or as RFC 3339.
func (m members) moment(names ...string) time.Time {
	for _, name := range names {
		var number float64
		if text, ok := m.text(name); ok {
			if t, err := time.Parse(time.RFC3339, text); err == nil {
				return t.UTC()
			}
		} else if json.Unmarshal(m[name], &number) == nil && number > 0 && number < 1e15 {
			if number < 1e11 {
				number *= 1000
			}
			return time.UnixMilli(int64(number)).UTC()
		}
	}
	return time.Time{}
}

// active returns the email of the account that was in use, which files give as such or as an index.
func (m members) active(accounts json.RawMessage) string {
	if email, ok := m.text("active"); ok {
		return foldEmail(email)
	}
	for _, name := range []string{"active", "activeIndex"} {
		var index int
		var list []members
		if raw, ok := m[name]; ok && json.Unmarshal(raw, &index) == nil && json.Unmarshal(accounts, &list) == nil && index >= 0 && index < len(list) {
			email, _ := list[index].text("email")
			return foldEmail(email)
		}
	}
	return ""
}

// foldEmail returns a name in lower case; whether there is such an account is checked elsewhere.
func foldEmail(name string) string { return strings.ToLower(strings.TrimSpace(name)) }
