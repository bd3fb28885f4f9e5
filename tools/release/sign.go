package release

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// namespace is the one of signatures over files. ssh-keygen refuses a signature that was made for
// another purpose, such as a commit.
const namespace = "file"

// checkKey returns an error unless signing is possible, so that a release does not fail at its end.
func checkKey(key string) error {
	if key == "" {
		return nil
	}
	content, err := os.ReadFile(key)
	if err != nil {
		return fmt.Errorf("the key for the signature: %w; make one with ssh-keygen -t ed25519 -f FILE", err)
	}
	info, err := os.Stat(key)
	if err == nil && runtime.GOOS != "windows" && info.Mode()&0o077 != 0 && bytes.Contains(content, []byte("PRIVATE KEY-----")) {
		return fmt.Errorf("the key for the signature, %s, can be read by other users, and ssh-keygen does not use it: chmod 600 %[1]s", key)
	}
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		return fmt.Errorf("the signature needs ssh-keygen: %w; install OpenSSH", err)
	}
	return nil
}

// sign writes SHA256SUMS.sig with an SSH key, and checks it. ssh-keygen asks for the passphrase on
// the terminal, or ssh-agent for a key that it holds.
func (o *output) sign(ctx context.Context, key string) error {
	list := filepath.Join(o.part, sums)
	if err := keygen(ctx, nil, "-Y", "sign", "-q", "-n", namespace, "-f", key, list); err != nil {
		return err
	}
	signature := list + ".sig"
	content, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	if err := os.Chmod(signature, 0o644); err != nil {
		return err
	}
	return keygen(ctx, content, "-Y", "check-novalidate", "-q", "-n", namespace, "-s", signature)
}

// keygen runs ssh-keygen with input, or with the terminal if that is nil.
func keygen(ctx context.Context, input []byte, args ...string) error {
	cmd := exec.CommandContext(ctx, "ssh-keygen", args...)
	cmd.Stdin = os.Stdin
	if input != nil {
		cmd.Stdin = bytes.NewReader(input)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ssh-keygen %s: %w\n%s", strings.Join(args[:2], " "), err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}
