package daemon

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"os"

	"perigee/internal/server/mount"
	"perigee/internal/store/config"
)

const environmentPath = "/v1/environment"

// An environment is a daemon's report about its variables: a hash of the value of each, empty if it
// is not set.
type environment struct {
	Salt    string            `json:"salt"` // the key of the hashes, a new one for each answer
	Digests map[string]string `json:"digests"`
}

// digest returns a keyed hash of the value of a variable, empty if it is not set.
func (e environment) digest(name string) string {
	value := os.Getenv(name)
	if value == "" {
		return ""
	}
	sum := hmac.New(sha256.New, []byte(e.Salt))
	_, _ = sum.Write([]byte(value))
	return hex.EncodeToString(sum.Sum(nil))
}

// environmentPoint is GET /v1/environment?variable=: the hashes of variables with which the daemon
// was started. The parameter may repeat. Only commands on this machine get them, through the socket.
func environmentPoint() mount.Point {
	point := mount.Methods{"GET": mount.Value(func(r *http.Request) (answer environment, err error) {
		query := r.URL.Query()
		names := query["variable"]
		query.Del("variable") // KnownParameters refuses repeated parameters, and this one may repeat
		if err := mount.KnownParameters(query, "variable"); err != nil {
			return answer, err
		}
		answer = environment{Salt: rand.Text(), Digests: map[string]string{}}
		for _, name := range names {
			answer.Digests[name] = answer.digest(name)
		}
		return answer, nil
	})}.At(environmentPath, mount.Socket)
	point.Command = "perigee doctor"
	return point
}

// CompareVariables compares environment variables that are set in this process with the variables
// of the running daemon. It returns those that the daemon does not have, and those of which it has
// another value. The values are not exchanged.
func CompareVariables(ctx context.Context, cfg *config.Config, names []string) (missing, different []string, err error) {
	theirs, err := Ask[environment](ctx, cfg, environmentPath+"?"+url.Values{"variable": names}.Encode())
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		switch ours := theirs.digest(name); {
		case ours == "" || ours == theirs.Digests[name]:
		case theirs.Digests[name] == "":
			missing = append(missing, name)
		default:
			different = append(different, name)
		}
	}
	return missing, different, nil
}
