package connectcmd

import (
	"os"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/lib/match"
	"perigee/internal/lib/redact"
	"perigee/internal/store/config"
)

// exceptKeys spares all secrets but client keys.
func exceptKeys(key string) bool { return !strings.HasPrefix(key, "keys[") }

// chooseKey returns a configured key: the named one, or the first. Without configured keys it is
// zero. An error repeats a name only if it resembles the name of a key: it may be a secret.
func chooseKey(name string, cfg *config.Config, wanted string) (perigee.Secret, string, error) {
	var names []string
	for _, k := range cfg.Keys {
		if wanted == "" || k.Name == wanted {
			return k.Secret, k.Name, nil
		}
		names = append(names, k.Name)
	}
	secretOf := slices.IndexFunc(cfg.Keys, func(k config.Key) bool { return k.Secret.Equal(wanted) })
	switch near := match.Nearest(wanted, names, 1); {
	case wanted == "":
		return perigee.Secret{}, "", nil
	case len(names) == 0:
		return perigee.Secret{}, "", cli.Usagef("%s: there are no keys in the configuration; leave out --key", name)
	case secretOf >= 0:
		return perigee.Secret{}, "", cli.Usagef("%s: that is a key's secret; give its name: --key %s", name, names[secretOf])
	case len(near) > 0:
		return perigee.Secret{}, "", cli.Usagef("%s: no key is named %q; did you mean %s?", name, wanted, near[0])
	case redact.Credentials(wanted) != wanted || redact.RandomWords(wanted) != wanted:
		return perigee.Secret{}, "", cli.Usagef("%s: that looks like a key's secret; give the name of a key: %s", name, strings.Join(names, ", "))
	default:
		return perigee.Secret{}, "", cli.Usagef("%s: no key has that name; the keys are %s", name, strings.Join(names, ", "))
	}
}

// variableOf returns the environment variable that a secret was read from, or an empty name.
func variableOf(loaded *config.Loaded, secret perigee.Secret) string {
	for _, name := range loaded.Variables {
		if secret.Equal(os.Getenv(name)) {
			return name
		}
	}
	return ""
}
