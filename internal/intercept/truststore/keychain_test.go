package truststore

import (
	"fmt"
	"path/filepath"
	"testing"
)

// The stand-ins take exactly the commands that the documentation of the tools has; the real ones
// were not tried.
func TestOtherSystemsWithStandIns(t *testing.T) {
	for system, script := range map[string]string{
		"darwin": `STORE="$ROOT/keychain"; mkdir -p "$STORE"; KEYCHAIN=/Library/Keychains/System.keychain
fingerprint() { openssl x509 -in "$1" -noout -fingerprint -sha1 | sed 's/.*=//; s/://g'; }
case "$*" in
"add-trusted-cert -d -r trustRoot -p ssl -k $KEYCHAIN "*) cp "$9" "$STORE/$(fingerprint "$9").pem";;
"find-certificate -a -p $KEYCHAIN") cat "$STORE"/*.pem 2>/dev/null || true;;
"verify-cert -l -L -p ssl -c "*) test -e "$STORE/$(fingerprint "$7").pem";;
"delete-certificate -Z "*" -t $KEYCHAIN") rm "$STORE/$3.pem";;
*) echo "unexpected: $*" >&2; exit 2;;
esac
`,
		"windows": `STORE="$ROOT/store"; mkdir -p "$STORE"
fingerprint() { openssl x509 -in "$1" -noout -fingerprint -sha1 | sed 's/.*=//; s/://g'; }
case "$*" in
"-f -addstore Root "*) openssl x509 -in "$4" -outform DER -out "$STORE/$(fingerprint "$4")";;
"-store Root "*) cp "$STORE/$3" "$4";;
"-delstore Root "*) rm "$STORE/$3";;
*) echo "unexpected: $*" >&2; exit 2;;
esac
`,
	} {
		t.Run(system, func(t *testing.T) {
			r := newRig(t)
			r.machine.OS = system
			if _, err := find("openssl"); err != nil {
				t.Skip("openssl is not installed")
			}
			name := map[string]string{"darwin": "security", "windows": "certutil"}[system]
			r.tool(name, script)
			s := r.store(System)
			r.want(s, r.ca, Absent)
			r.install(s)
			r.want(s, r.ca, Trusted)
			r.want(s, r.other, Absent)
			r.remove(s)
			r.want(s, r.ca, Absent)
			if left, _ := filepath.Glob(filepath.Join(r.machine.Root, "*", "*")); len(left) != 0 {
				t.Errorf("%v is left", left)
			}
			r.tool(name, fmt.Sprintf("case \"$*\" in *add*) echo 'not permitted' >&2; exit 1;; esac; exec %s\n", "true"))
			wantError(t, s.Install(t.Context(), r.ca, r.file), "not permitted")
		})
	}
}
