// Package importcmd makes a configuration of perigee from the one of another gateway: LiteLLM,
// claude-code-router or CLIProxyAPI. Each setting either has a counterpart or is named.
package importcmd

import (
	"errors"
	"slices"
)

// cliProxyKeys are the settings by which a configuration of CLIProxyAPI is recognized.
var cliProxyKeys = []string{"api-keys", "auth-dir", "gemini-api-key", "claude-api-key", "codex-api-key", "xai-api-key", "vertex-api-key",
	"openai-compatibility"}

// Convert returns the configuration of perigee for the text of another program's, and sentences about
// it: the settings without a counterpart, and the secrets that have to be exported. The sentences have
// paths of settings, and no secrets. The error is the reason why the text cannot be converted; the
// sentences may have more about it.
func Convert(text []byte) (converted []byte, notes []string, err error) {
	document, err := parse(text)
	if err != nil {
		return nil, nil, err
	}
	root := document.root
	d := newDraft(root)
	switch {
	case root.get("model_list").exists():
		d.liteLLM(root)
	case root.hasAny("Providers", "Router"), root.get("providers").items() != nil:
		d.claudeCodeRouter(root)
	case root.hasAny(cliProxyKeys...):
		d.cliProxyAPI(root)
	case root.hasAny("upstreams", "listen"):
		return nil, nil, errors.New("it is perigee's own configuration, or of a program that is not known")
	default:
		return nil, nil, errors.New("it is not a configuration of LiteLLM, claude-code-router or CLIProxyAPI")
	}
	root.rest(func(path string) { d.note(path, "no counterpart in perigee") })
	if len(d.file.Upstreams) == 0 {
		return nil, d.notes, errors.New("perigee can use none of its providers")
	}
	if why := refused(d.file); why != "" {
		return nil, d.notes, errors.New(why)
	}
	converted, err = d.file.yaml()
	return converted, slices.Compact(d.notes), err
}
