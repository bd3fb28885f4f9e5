package roster

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"perigee"
	"perigee/internal/testing/perigeetest/dbtest"
)

// proto writes a message of fields that have bytes: number and value by turns.
func proto(parts ...any) string {
	var b []byte
	for n := 0; n < len(parts); n += 2 {
		value := parts[n+1].(string)
		b = binary.AppendUvarint(b, uint64(parts[n].(int))<<3|2)
		b = binary.AppendUvarint(b, uint64(len(value)))
		b = append(b, value...)
	}
	return string(b)
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// topic is what the IDE keeps under a key: a row with a message.
func topic(row, message string) string {
	return b64(proto(1, proto(1, "other", 2, proto(1, "x")), 1, proto(1, row, 2, proto(1, b64(message)))))
}

func token(refresh string) string {
	return proto(1, "fake-access", 2, "Bearer", 3, refresh, 4, "\x08\x80\xae\x99\xa4\x0f") + "\x30\x01"
}

func TestImportFromTheIDE(t *testing.T) {
	user := proto(3, "Ada", 7, "Ada@example.com")
	tests := []struct {
		name string
		rows map[string]string
		want string
	}{
		{"signed in", map[string]string{tokenKey: topic(tokenRow, token("fake-refresh-ada")), userKey: topic(userRow, user)},
			"the sign-in | ada@example.com\n+ ada@example.com fake-refresh-ada\n"},
		{"without padding, with a line end", map[string]string{tokenKey: strings.TrimRight(topic(tokenRow, token("fake-refresh-ada")), "=") + "\n", userKey: topic(userRow, user)},
			"the sign-in | ada@example.com\n+ ada@example.com fake-refresh-ada\n"},
		{"the email only in the status", map[string]string{tokenKey: topic(tokenRow, token("fake-refresh-ada")), statusKey: `{"apiKey":"fake-access","email":"ada@example.com","name":"Ada"}`},
			"the sign-in | ada@example.com\n+ ada@example.com fake-refresh-ada\n"},
		{"nobody says whose it is", map[string]string{tokenKey: topic(tokenRow, token("fake-refresh-ada")), statusKey: `null`, userKey: "!"},
			"the sign-in |  |  |  | nameless\n+  fake-refresh-ada\n"},
		{"an older version", map[string]string{legacyKey: b64(proto(1, "id", 2, "ada@example.com", 6, token("fake-refresh-ada")))},
			"the sign-in of an older version | ada@example.com\n+ ada@example.com fake-refresh-ada\n"},
		{"an older version's rest", map[string]string{legacyKey: b64(proto(2, "ada@example.com", 6, token("fake-refresh-old"))),
			tokenKey: topic(tokenRow, token("fake-refresh-new")), userKey: topic(userRow, user)},
			"the sign-in of an older version | ada@example.com |  | the same account as the sign-in, which is newer\nthe sign-in | ada@example.com\n+ ada@example.com fake-refresh-new\n"},
		{"an older version's rest without a token", map[string]string{legacyKey: b64(proto(2, "ada@example.com")), tokenKey: topic(tokenRow, token("fake-refresh-new"))},
			"the sign-in |  |  |  | nameless\n+  fake-refresh-new\n"},
		{"signed out", map[string]string{tokenKey: topic(tokenRow, token("")), userKey: topic(userRow, user)},
			"the sign-in | ada@example.com | it has no refresh token: the IDE is signed out\ninvalid: import FILE: the only account in it cannot be used; sign in with `perigee login`\n"},
		{"no such row", map[string]string{tokenKey: topic("other", token("fake-refresh-ada"))},
			"the sign-in |  | it is damaged\ninvalid: import FILE: the only account in it cannot be used; sign in with `perigee login`\n"},
		{"damaged base64", map[string]string{tokenKey: "%%%"},
			"the sign-in |  | it is damaged\ninvalid: import FILE: the only account in it cannot be used; sign in with `perigee login`\n"},
		{"never signed in", map[string]string{"other": "x"},
			"invalid: import FILE: there are no accounts in it; sign in with `perigee login`, or export them again\n"},
	}
	for _, test := range tests {
		for _, journal := range []string{"DELETE", "WAL"} {
			t.Run(test.name+" "+journal, func(t *testing.T) {
				i := dbtest.NewEditor(t, journal)
				for key, value := range test.rows {
					i.Set(key, []byte(value))
				}
				list, err := readAccounts(t.Context(), i.Path, false, readAt)
				var got strings.Builder
				write(&got, list, err, i.Path)
				if got.String() != test.want {
					t.Errorf("got\n%s\nwant\n%s", got.String(), test.want)
				}
			})
		}
	}
}

// TestGoldenRow has the bytes of a whole topic written down, so that proto above is not its only
// witness.
func TestGoldenRow(t *testing.T) {
	const golden = "0a3f0a196f61757468546f6b656e496e666f53656e74696e656c4b657912220a2043674a4256424947516d5668636d567947674a5356434947434943756d615150"
	raw, err := hex.DecodeString(golden)
	if err != nil {
		t.Fatal(err)
	}
	info, err := row([]byte(b64(string(raw))), tokenRow)
	if err != nil || textField(info, 3) != "RT" || textField(info, 1) != "AT" {
		t.Errorf("got %q, %v", info, err)
	}
}

func TestImportOfAnotherDatabase(t *testing.T) {
	i := dbtest.NewEditor(t, "DELETE")
	i.Exec("ALTER TABLE ItemTable RENAME TO Bookmarks")
	_, err := readAccounts(t.Context(), i.Path, false, readAt)
	wantClass(t, err, perigee.ClassInvalid)
	broken := filepath.Join(t.TempDir(), "state.vscdb")
	if err := os.WriteFile(broken, []byte("SQLite format 3\x00half"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = readAccounts(t.Context(), broken, true, readAt)
	wantClass(t, err, perigee.ClassInvalid)
}

func FuzzFields(f *testing.F) {
	f.Add([]byte(token("fake-refresh-ada")))
	f.Add([]byte("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, message []byte) {
		size := 0
		_ = fields(message, func(_ protowire.Number, value []byte) { size += len(value) })
		if size > len(message) {
			t.Errorf("%d bytes out of %d", size, len(message))
		}
		_, _ = row([]byte(b64(string(message))), tokenRow)
	})
}
