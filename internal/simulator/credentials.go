package simulator

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Credentials of Google for programs, as the tools of Google Cloud use them.
const (
	cloudScope = "https://www.googleapis.com/auth/cloud-platform"

	serviceEmail  = "sim-service@sim-vertex.iam.gserviceaccount.com"
	targetEmail   = "sim-target@sim-vertex.iam.gserviceaccount.com" // every account may impersonate it
	computeEmail  = "sim-compute@sim-vertex.iam.gserviceaccount.com"
	workloadEmail = "principal://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/sim/subject/sim"

	vertexProject = "sim-vertex" // of the service accounts

	credentialsPath = adminPath + "credentials"
	subjectPath     = adminPath + "subject-token"
	subjectToken    = "sim-subject-token"
	poolAudience    = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/sim/providers/sim"

	jwtGrant      = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"
	accessType    = "urn:ietf:params:oauth:token-type:access_token"
	subjectType   = "urn:ietf:params:oauth:token-type:jwt"

	maxAssertion = time.Hour
	clockSkew    = 5 * time.Minute
	metadataRoot = "/computeMetadata/v1/"
)

// serviceKey makes the key of the service account from the seed, so that a file with it is valid
// after a restart.
func serviceKey(seed []byte) *rsa.PrivateKey {
	prime := func(name string) *big.Int {
		var bytes []byte
		for i := range uint64(4) {
			sum := sha256.Sum256(binary.BigEndian.AppendUint64(append([]byte(name), seed...), i))
			bytes = append(bytes, sum[:]...)
		}
		bytes[0] |= 0xc0 // so that the product of two has all bits
		p := new(big.Int).SetBytes(bytes)
		p.SetBit(p, 0, 1)
		for two := big.NewInt(2); !p.ProbablyPrime(20); {
			p.Add(p, two)
		}
		return p
	}
	const exponent = 65537
	one := big.NewInt(1)
	p, q := prime("service account p"), prime("service account q")
	phi := new(big.Int).Mul(new(big.Int).Sub(p, one), new(big.Int).Sub(q, one))
	key := &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: new(big.Int).Mul(p, q), E: exponent}, Primes: []*big.Int{p, q},
		D: new(big.Int).ModInverse(big.NewInt(exponent), phi)}
	key.Precompute()
	return key
}

// serviceKeys makes the key when it is first needed.
type serviceKeys struct {
	once sync.Once
	key  *rsa.PrivateKey
	id   string
}

func (k *serviceKeys) get(seed []byte) (*rsa.PrivateKey, string) {
	k.once.Do(func() {
		k.key = serviceKey(seed)
		sum := sha256.Sum256(k.key.N.Bytes())
		k.id = hex.EncodeToString(sum[:20])
	})
	return k.key, k.id
}

// credentials returns a credentials file of a type, for a simulator at an address. ok is false if
// there is no such type.
func (s *Server) credentials(kind, base, file string) (body any, ok bool) {
	key, id := s.serviceKeys.get(s.signer.key)
	service := map[string]string{}
	if kind == "service_account" || kind == "impersonated_service_account" {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			panic("simulator: " + err.Error()) // the key is always valid
		}
		service = map[string]string{"type": "service_account", "project_id": vertexProject, "private_key_id": id, "client_email": serviceEmail,
			"client_id": "100000000000000000001", "token_uri": base + "/token", "universe_domain": "googleapis.com",
			"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))}
	}
	impersonation := base + "/v1/projects/-/serviceAccounts/" + targetEmail + ":generateAccessToken"
	switch kind {
	case "service_account":
		return service, true
	case "authorized_user":
		a := s.directory().accounts[0]
		return map[string]string{"type": kind, "client_id": "sim-client", "client_secret": "sim-secret", "refresh_token": a.RefreshToken,
			"quota_project_id": a.Project, "token_uri": base + "/token", "universe_domain": "googleapis.com"}, true
	case "impersonated_service_account":
		return map[string]any{"type": kind, "source_credentials": service, "service_account_impersonation_url": impersonation, "delegates": []string{}}, true
	case "external_account":
		source := map[string]any{"url": base + subjectPath}
		if file != "" {
			source = map[string]any{"file": file}
		}
		return map[string]any{"type": kind, "audience": poolAudience, "subject_token_type": subjectType, "token_url": base + "/v1/token",
			"universe_domain": "googleapis.com", "credential_source": source}, true
	}
	return nil, false
}

// adminCredentials writes a file for GOOGLE_APPLICATION_CREDENTIALS.
func (s *Server) adminCredentials(w http.ResponseWriter, r *http.Request) {
	kind := r.URL.Query().Get("type")
	if kind == "" {
		kind = "service_account"
	}
	body, ok := s.credentials(kind, "http://"+r.Host, r.URL.Query().Get("file"))
	if !ok {
		http.Error(w, "type is service_account, authorized_user, impersonated_service_account or external_account", http.StatusBadRequest)
		return
	}
	writeJSON(w, http.StatusOK, body)
}

func (s *Server) adminSubjectToken(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprint(w, subjectToken)
}

// adminRevoke lets all access tokens expire. Refresh tokens and keys remain valid.
func (s *Server) adminRevoke(w http.ResponseWriter, _ *http.Request) {
	d, now := s.directory(), s.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, token := range d.access {
		if token.expires.After(now) {
			token.expires = now
		}
	}
	writeJSON(w, http.StatusOK, map[string]int{"expired": len(d.access)})
}

// grant issues an access token of a service account or workload.
func (d *directory) grant(email, scope string, lifetime time.Duration, now time.Time) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keepAccess(accessToken{service: email, scope: scope, expires: now.Add(lifetime)}, now)
}

// An assertion is a token that a service account has signed.
type assertion struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	Scope    string `json:"scope"`
	Issued   int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

// readAssertion checks the signature and the times of a JWT. The problem is "" if both are right.
func (s *Server) readAssertion(jwt string) (claims assertion, problem string) {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return claims, "Invalid JWT: not a JWS Compact Serialization."
	}
	var header struct{ Alg, Kid string }
	for i, into := range []any{&header, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(raw, into) != nil {
			return claims, "Invalid JWT: Failed to decode."
		}
	}
	key, id := s.serviceKeys.get(s.signer.key)
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	now := s.now()
	issued, expires := time.Unix(claims.Issued, 0), time.Unix(claims.Expires, 0)
	switch {
	case claims.Issuer != serviceEmail:
		return claims, "Invalid grant: account not found"
	case header.Alg != "RS256" || header.Kid != id || err != nil || rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], signature) != nil:
		return claims, "Invalid JWT Signature."
	case expires.Sub(issued) > maxAssertion || now.Before(issued.Add(-clockSkew)) || now.After(expires):
		return claims, "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values in the JWT claim."
	}
	return claims, ""
}

// redeemAssertion gives a service account an access token for its signed assertion.
func (x *exchange) redeemAssertion(form url.Values) (*tokenAnswer, *tokenRefusal) {
	claims, problem := x.server.readAssertion(form.Get("assertion"))
	x.call.Account = claims.Issuer
	audience, err := url.Parse(claims.Audience)
	switch {
	case problem != "":
		return nil, badToken("invalid_grant", problem)
	case err != nil || audience.Path != "/token" || audience.Host != x.r.Host && claims.Audience != "https://oauth2.googleapis.com/token":
		return nil, badToken("invalid_grant", "Invalid JWT: Failed audience check.")
	case claims.Scope == "":
		return nil, badToken("invalid_scope", "Invalid OAuth scope or ID token audience provided.")
	}
	return &tokenAnswer{AccessToken: x.people.grant(claims.Issuer, claims.Scope, tokenLifetime, x.server.now()),
		ExpiresIn: int(tokenLifetime.Seconds()), Scope: claims.Scope, TokenType: "Bearer"}, nil
}

// exchangeToken gives a workload an access token for a token of its own identity provider.
func (x *exchange) exchangeToken() {
	form, err := url.ParseQuery(string(x.body))
	refuse := func(code, why string) { x.writeTokenError(http.StatusBadRequest, code, why) }
	if x.strikeSmall(stageAuth) {
		return
	}
	switch {
	case err != nil || form.Get("grant_type") != exchangeGrant:
		refuse("unsupported_grant_type", "Invalid grant_type: "+form.Get("grant_type"))
	case form.Get("audience") != poolAudience:
		refuse("invalid_target", "The target service indicated by the \"audience\" parameters is invalid. This might either be because the pool or provider is disabled or deleted or because it doesn't exist.")
	case form.Get("requested_token_type") != accessType:
		refuse("invalid_request", "Invalid value for \"requested_token_type\".")
	case form.Get("subject_token_type") != subjectType:
		refuse("invalid_request", "Invalid value for \"subject_token_type\".")
	case strings.TrimSpace(form.Get("subject_token")) != subjectToken:
		refuse("invalid_grant", "The given credential is rejected by the attribute condition.")
	case form.Get("scope") == "":
		refuse("invalid_scope", "Invalid OAuth scope or ID token audience provided.")
	default:
		x.call.Account = workloadEmail
		writeJSON(x.w, http.StatusOK, map[string]any{"access_token": x.people.grant(workloadEmail, form.Get("scope"), tokenLifetime, x.server.now()),
			"issued_token_type": accessType, "token_type": "Bearer", "expires_in": int(tokenLifetime.Seconds())})
	}
}

// impersonate gives a caller an access token of another service account.
func (x *exchange) impersonate(email string) {
	token, refused := x.cloudToken("iamcredentials.googleapis.com")
	if refused != nil {
		x.writeError(refused)
		return
	}
	x.call.Account = token.owner()
	var body struct {
		Scope    []string `json:"scope"`
		Lifetime string   `json:"lifetime"`
	}
	lifetime := time.Hour
	err := json.Unmarshal(x.body, &body)
	if err == nil && body.Lifetime != "" {
		lifetime, err = time.ParseDuration(body.Lifetime)
	}
	switch {
	case x.strikeSmall(stageAuth):
	case err != nil || lifetime <= 0 || lifetime > time.Hour:
		x.writeError(invalid("impersonate.lifetime", "The value of the lifetime is not valid."))
	case len(body.Scope) == 0:
		x.writeError(invalid("impersonate.scope", "Request contains an invalid argument."))
	case email != targetEmail:
		e := refuse(http.StatusForbidden, "PERMISSION_DENIED", "impersonate.denied", "Permission 'iam.serviceAccounts.getAccessToken' denied on resource (or it may not exist).")
		e.Details = []any{errorInfo("IAM_PERMISSION_DENIED", "iam.googleapis.com", map[string]string{"permission": "iam.serviceAccounts.getAccessToken"})}
		x.writeError(e)
	default:
		now := x.server.now()
		writeJSON(x.w, http.StatusOK, map[string]string{"accessToken": x.people.grant(email, strings.Join(body.Scope, " "), lifetime, now),
			"expireTime": now.Add(lifetime).UTC().Format(time.RFC3339)})
	}
}

// metadata serves the metadata server of a virtual machine.
func (x *exchange) metadata(path string) {
	x.w.Header().Set("Metadata-Flavor", "Google")
	x.w.Header().Set("Content-Type", "application/text")
	if x.r.Header.Get("Metadata-Flavor") != "Google" || x.r.Header.Get("X-Forwarded-For") != "" {
		x.call.Rule = "metadata.flavor"
		http.Error(x.w, "Missing Metadata-Flavor:Google header.", http.StatusForbidden)
		return
	}
	if x.strikeSmall(stageAuth) {
		return
	}
	switch account, member, _ := strings.Cut(strings.TrimPrefix(path, "instance/service-accounts/"), "/"); {
	case path == "project/project-id":
		fmt.Fprint(x.w, vertexProject)
	case path == "universe/universe-domain":
		fmt.Fprint(x.w, "googleapis.com")
	case account != "default" && account != computeEmail:
		http.Error(x.w, "404 page not found", http.StatusNotFound)
	case member == "email":
		fmt.Fprint(x.w, computeEmail)
	case member == "token":
		scope := strings.ReplaceAll(x.r.URL.Query().Get("scopes"), ",", " ")
		if scope == "" {
			scope = cloudScope
		}
		x.call.Account = computeEmail
		writeJSON(x.w, http.StatusOK, map[string]any{"access_token": x.people.grant(computeEmail, scope, tokenLifetime, x.server.now()),
			"expires_in": int(tokenLifetime.Seconds()), "token_type": "Bearer"})
	default:
		http.Error(x.w, "404 page not found", http.StatusNotFound)
	}
}

// cloudToken checks the access token of a call to an API of Google Cloud. A JWT that a service
// account has signed for the API is one, too.
func (x *exchange) cloudToken(service string) (*accessToken, *statusError) {
	sent := x.bearer()
	metadata := map[string]string{"service": service}
	if sent == "" {
		e := refuse(http.StatusUnauthorized, "UNAUTHENTICATED", "auth.missing", "Request is missing required authentication credential. Expected OAuth 2 access token, login cookie or other valid authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.")
		e.Details = []any{errorInfo("CREDENTIALS_MISSING", publicDomain, metadata)}
		return nil, e
	}
	now := x.server.now()
	token := x.people.token(sent)
	if token == nil && strings.Count(sent, ".") == 2 {
		if claims, problem := x.server.readAssertion(sent); problem == "" && (claims.Scope != "" || claims.Audience == "https://"+service+"/") {
			token = &accessToken{service: claims.Issuer, scope: cloudScope, expires: time.Unix(claims.Expires, 0)}
		}
	}
	if token == nil || !now.Before(token.expires) {
		e, reason := unauthenticated("auth.expired"), "ACCESS_TOKEN_EXPIRED"
		if token == nil {
			e.Rule, reason = "auth.bearer", "ACCESS_TOKEN_TYPE_UNSUPPORTED"
		}
		e.Details = []any{errorInfo(reason, publicDomain, metadata)}
		return nil, e
	}
	if token.account == nil && !slices.Contains(strings.Fields(token.scope), cloudScope) {
		e := refuse(http.StatusForbidden, "PERMISSION_DENIED", "auth.scope", "Request had insufficient authentication scopes.")
		e.Details = []any{errorInfo("ACCESS_TOKEN_SCOPE_INSUFFICIENT", publicDomain, metadata)}
		return nil, e
	}
	return token, nil
}

// token returns a token that was issued, whether it has expired or not, or nil.
func (d *directory) token(sent string) *accessToken {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.access[sent]
	if found == nil {
		return nil
	}
	copied := *found
	return &copied
}

// owner is the email of the account, or of the service account.
func (t *accessToken) owner() string {
	if t.account != nil {
		return t.account.Email
	}
	return t.service
}
