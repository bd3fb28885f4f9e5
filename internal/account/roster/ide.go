package roster

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"perigee"
	"perigee/internal/account/oauth"
	"perigee/internal/lib/vscdb"
)

// Keys under which the IDE stores the state of its user. Topics are base64 of a map of rows; older
// versions have one message with everything.
const (
	tokenKey  = "antigravityUnifiedStateSync.oauthToken"
	userKey   = "antigravityUnifiedStateSync.userStatus"
	legacyKey = "jetskiStateSync.agentManagerInitState"
	statusKey = "antigravityAuthStatus" // JSON
	tokenRow  = "oauthTokenInfoSentinelKey"
	userRow   = "userStatusSentinelKey"
)

// readIDE reads the account that the IDE is signed in with.
func readIDE(ctx context.Context, path string) (*accountList, error) {
	values, err := vscdb.Read(ctx, path, tokenKey, userKey, legacyKey, statusKey)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, fs.ErrPermission):
		return nil, unwrapPath(err)
	case err != nil:
		return nil, perigee.Errorf(perigee.ClassInvalid, "it cannot be read as a database of the IDE: %v", err).
			WithHint("close the IDE and try again, or sign in with `perigee login`")
	}
	list := &accountList{}
	var entries []entry
	add := func(where string, refresh, email string, err error) {
		line := FileLine{Where: where}
		if named, ok := oauth.Address(email); ok {
			line.Email = named
		}
		switch {
		case err != nil:
			line.Problem = "it is damaged"
		case !plausibleToken(refresh):
			line.Problem = "it has no refresh token: the IDE is signed out"
		default:
			line.Nameless = line.Email == ""
			account := perigee.Account{Email: line.Email, Enabled: true, State: perigee.AccountUntested}
			entries = append(entries, entry{line: len(list.Lines), SignIn: perigee.SignIn{Account: account, Refresh: perigee.NewSecret(refresh)}})
		}
		list.Lines = append(list.Lines, line)
	}
	// The older message goes first: of two for one person the later counts.
	if value, ok := values[legacyKey]; ok {
		message, err := decodeBase64(value)
		if token, has := field(message, 6); has || err != nil {
			add("the sign-in of an older version", textField(token, 3), textField(message, 2), err)
		}
	}
	if value, ok := values[tokenKey]; ok {
		token, err := row(value, tokenRow)
		add("the sign-in", textField(token, 3), ideEmail(values), err)
	}
	list.take(entries)
	return list, nil
}

// ideEmail returns the email of the IDE's user.
func ideEmail(values map[string][]byte) string {
	if user, err := row(values[userKey], userRow); err == nil {
		if email, ok := oauth.Address(textField(user, 7)); ok {
			return email
		}
	}
	var status struct {
		Email string `json:"email"`
	}
	_ = json.Unmarshal(values[statusKey], &status) // it may not be there
	return status.Email
}

var errNoRow = errors.New("no such row")

// row returns a row of a topic. A topic is a map of names to rows, and the first field of a row is
// the base64 of another message.
func row(value []byte, name string) ([]byte, error) {
	topic, err := decodeBase64(value)
	if err != nil {
		return nil, err
	}
	var found []byte
	err = fields(topic, func(number protowire.Number, entry []byte) {
		if number == 1 && textField(entry, 1) == name {
			found, _ = field(entry, 2)
		}
	})
	if err == nil && found == nil {
		err = errNoRow
	}
	if err != nil {
		return nil, err
	}
	return decodeBase64([]byte(textField(found, 1)))
}

// decodeBase64 reads base64 with or without padding, in either alphabet.
func decodeBase64(value []byte) ([]byte, error) {
	text := strings.TrimRight(string(bytes.TrimSpace(value)), "=")
	return base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(text))
}

// textField returns the last field of a number that has bytes, as a text; empty if there is none.
func textField(message []byte, number protowire.Number) string {
	value, _ := field(message, number)
	return string(value)
}

// field returns the last field of a number that has bytes. A damaged message has none.
func field(message []byte, number protowire.Number) (value []byte, found bool) {
	err := fields(message, func(n protowire.Number, v []byte) {
		if n == number {
			value, found = v, true
		}
	})
	if err != nil {
		return nil, false
	}
	return value, found
}

// fields calls visit for each field of a protobuf message that has bytes: texts and messages.
func fields(message []byte, visit func(number protowire.Number, value []byte)) error {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeField(message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(message)
			value, _ := protowire.ConsumeBytes(message[tag:])
			visit(number, value)
		}
		message = message[size:]
	}
	return nil
}
