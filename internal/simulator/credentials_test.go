package simulator

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/url"
	"testing"
	"time"
)

// serviceFile is the credentials file of the service account.
type serviceFile struct {
	Email string `json:"client_email"`
	KeyID string `json:"private_key_id"`
	Key   string `json:"private_key"`
	Token string `json:"token_uri"`
}

func (r *rig) serviceFile() serviceFile {
	r.t.Helper()
	var file serviceFile
	r.do("GET", "/simulator/credentials", "").decode(r.t, &file)
	return file
}

// jwt signs claims with the key of the file.
func (f serviceFile) jwt(t *testing.T, algorithm string, claims map[string]any) string {
	t.Helper()
	block, _ := pem.Decode([]byte(f.Key))
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, part := range []any{map[string]string{"alg": algorithm, "kid": f.KeyID, "typ": "JWT"}, claims} {
		encoded, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		text += base64.RawURLEncoding.EncodeToString(encoded) + "."
	}
	sum := sha256.Sum256([]byte(text[:len(text)-1]))
	signature, err := rsa.SignPKCS1v15(rand.Reader, parsed.(*rsa.PrivateKey), crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return text + base64.RawURLEncoding.EncodeToString(signature)
}

// claims are those of a valid assertion, with changes.
func (f serviceFile) claims(changes map[string]any) map[string]any {
	claims := map[string]any{"iss": f.Email, "sub": f.Email, "aud": f.Token, "scope": cloudScope, "iat": testStart.Unix(), "exp": testStart.Add(time.Hour).Unix()}
	for name, value := range changes {
		claims[name] = value
	}
	return claims
}

func assertionForm(jwt string) url.Values {
	return url.Values{"grant_type": {jwtGrant}, "assertion": {jwt}}
}

// impersonateAs asks for a token of a service account, which any valid token may do.
func (r *rig) impersonateAs(token, email string) answer {
	r.t.Helper()
	return r.do("POST", "/v1/projects/-/serviceAccounts/"+email+":generateAccessToken", `{"scope":["`+cloudScope+`"],"lifetime":"600s"}`, "Authorization", "Bearer "+token)
}

func TestServiceAccountsGetTokensForSignedAssertions(t *testing.T) {
	r := newTCPRig(t, Options{Admin: true})
	file := r.serviceFile()
	var granted tokenAnswer
	a := r.form("/token", assertionForm(file.jwt(t, "RS256", file.claims(nil))))
	a.want(t, 200, `"token_type":"Bearer"`, `"expires_in":3599`)
	a.decode(t, &granted)
	r.impersonateAs(granted.AccessToken, targetEmail).want(t, 200, `"expireTime":"2026-08-01T10:10:00Z"`)
	r.impersonateAs(granted.AccessToken, "other@example.com").want(t, 403, "IAM_PERMISSION_DENIED")
	again := newTCPRig(t, Options{Admin: true}).serviceFile()
	if again.Key != file.Key || again.KeyID != file.KeyID {
		t.Error("the key depends on more than the seed")
	}
	if other := newTCPRig(t, Options{Admin: true, Seed: "other"}).serviceFile(); other.Key == file.Key {
		t.Error("the key does not depend on the seed")
	}
	late := testStart.Add(time.Hour + time.Second).Unix()
	for name, c := range map[string]struct {
		jwt  string
		code string
		want string
	}{
		"algorithm":        {file.jwt(t, "HS256", file.claims(nil)), "invalid_grant", "Invalid JWT Signature."},
		"claims changed":   {file.jwt(t, "RS256", file.claims(nil))[:60] + "x" + file.jwt(t, "RS256", file.claims(nil))[61:], "invalid_grant", "Invalid JWT"},
		"not a JWT":        {"a.b", "invalid_grant", "Invalid JWT"},
		"another account":  {file.jwt(t, "RS256", file.claims(map[string]any{"iss": "x@example.com"})), "invalid_grant", "account not found"},
		"another audience": {file.jwt(t, "RS256", file.claims(map[string]any{"aud": "https://example.com/token"})), "invalid_grant", "Failed audience check"},
		"too long":         {file.jwt(t, "RS256", file.claims(map[string]any{"exp": late})), "invalid_grant", "short-lived token (60 minutes)"},
		"in the future":    {file.jwt(t, "RS256", file.claims(map[string]any{"iat": late, "exp": late})), "invalid_grant", "short-lived token"},
		"expired":          {file.jwt(t, "RS256", file.claims(map[string]any{"iat": late - 7300, "exp": late - 3700})), "invalid_grant", "short-lived token"},
		"no scope":         {file.jwt(t, "RS256", file.claims(map[string]any{"scope": ""})), "invalid_scope", "Invalid OAuth scope"},
	} {
		if a := r.form("/token", assertionForm(c.jwt)); a.status != 400 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		} else {
			a.want(t, 400, `"error":"`+c.code+`"`, c.want)
		}
	}
}

func TestAccessTokensOfGoogleCloudExpire(t *testing.T) {
	r := newTCPRig(t, Options{Admin: true})
	r.impersonateAs("", targetEmail).want(t, 401, "CREDENTIALS_MISSING")
	r.impersonateAs("unknown", targetEmail).want(t, 401, "ACCESS_TOKEN_TYPE_UNSUPPORTED")
	token := r.token("ada@example.com")
	r.impersonateAs(token, targetEmail).want(t, 200)
	r.do("DELETE", "/simulator/tokens", "").want(t, 200, `"expired":`)
	r.impersonateAs(token, targetEmail).want(t, 401, "ACCESS_TOKEN_EXPIRED")
	token = r.token("ada@example.com")
	r.server.Advance(tokenLifetime)
	r.impersonateAs(token, targetEmail).want(t, 401, "ACCESS_TOKEN_EXPIRED")
	file := r.serviceFile()
	narrow := r.form("/token", assertionForm(file.jwt(t, "RS256", file.claims(map[string]any{
		"scope": "openid", "iat": testStart.Add(tokenLifetime).Unix(), "exp": testStart.Add(2 * tokenLifetime).Unix()}))))
	var granted tokenAnswer
	narrow.decode(t, &granted)
	r.impersonateAs(granted.AccessToken, targetEmail).want(t, 403, "ACCESS_TOKEN_SCOPE_INSUFFICIENT")
}

func TestWorkloadsExchangeTheirTokens(t *testing.T) {
	r := newTCPRig(t, Options{Admin: true})
	var file struct {
		Audience string
		Type     string                     `json:"subject_token_type"`
		URL      string                     `json:"token_url"`
		Source   struct{ URL, File string } `json:"credential_source"`
	}
	r.do("GET", "/simulator/credentials?type=external_account&file=/run/token", "").decode(t, &file)
	if file.Source.File != "/run/token" || file.Source.URL != "" {
		t.Errorf("%+v", file)
	}
	r.do("GET", "/simulator/credentials?type=external_account", "").want(t, 200, r.base+"/simulator/subject-token")
	r.do("GET", "/simulator/credentials?type=gdch_service_account", "").want(t, 400, "external_account")
	form := func(changes ...string) url.Values {
		f := url.Values{"grant_type": {exchangeGrant}, "audience": {file.Audience}, "requested_token_type": {accessType},
			"subject_token_type": {file.Type}, "subject_token": {r.do("GET", "/simulator/subject-token", "").body}, "scope": {cloudScope}}
		for i := 0; i < len(changes); i += 2 {
			f.Set(changes[i], changes[i+1])
		}
		return f
	}
	var granted tokenAnswer
	a := r.form("/v1/token", form())
	a.want(t, 200, `"issued_token_type":"urn:ietf:params:oauth:token-type:access_token"`)
	a.decode(t, &granted)
	r.impersonateAs(granted.AccessToken, targetEmail).want(t, 200)
	for member, code := range map[string]string{"grant_type": "unsupported_grant_type", "audience": "invalid_target", "subject_token": "invalid_grant",
		"requested_token_type": "invalid_request", "subject_token_type": "invalid_request"} {
		r.form("/v1/token", form(member, "x")).want(t, 400, `"error":"`+code+`"`)
	}
	r.form("/v1/token", form("scope", "")).want(t, 400, "invalid_scope")
}

func TestMetadataServer(t *testing.T) {
	r := newTCPRig(t, Options{})
	const path = "/computeMetadata/v1/instance/service-accounts/default/token"
	r.do("GET", path, "").want(t, 403, "Missing Metadata-Flavor")
	r.do("GET", path, "", "Metadata-Flavor", "Google", "X-Forwarded-For", "10.0.0.1").want(t, 403)
	var granted tokenAnswer
	a := r.do("GET", path+"?scopes="+cloudScope, "", "Metadata-Flavor", "Google")
	a.want(t, 200, `"token_type":"Bearer"`)
	a.decode(t, &granted)
	if a.header.Get("Metadata-Flavor") != "Google" {
		t.Errorf("%v", a.header)
	}
	r.impersonateAs(granted.AccessToken, targetEmail).want(t, 200)
	r.do("GET", "/computeMetadata/v1/project/project-id", "", "Metadata-Flavor", "Google").want(t, 200, vertexProject)
	if calls := r.server.Calls(); calls[2].Account != computeEmail || calls[2].Path != path {
		t.Errorf("%+v", calls[2])
	}
}
