package redirect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"perigee/internal/lib/atomicfile"
)

// The systemd unit that restores the rules after a restart of the system.
const (
	unitName = "perigee-redirect.service"
	unitFile = "/etc/systemd/system/" + unitName
	// created by systemctl enable
	unitLink = "/etc/systemd/system/multi-user.target.wants/" + unitName
	// exists if systemd runs the system
	running = "/run/systemd/system"
)

// unitText is the text of the unit. The unit starts after programs that replace all rules, and
// before the gateway.
const unitText = `# Made by perigee redirect install --persist. perigee redirect remove removes it.
[Unit]
Description=Redirect of the user %s to perigee
After=nftables.service iptables.service ip6tables.service netfilter-persistent.service firewalld.service
Before=perigee.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=%s redirect install --user %s --port %d --backend %s

[Install]
WantedBy=multi-user.target
`

// exists reports whether there is a file, without following a link.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// hasUnit reports whether there are any files of the unit, and whether it is complete.
func hasUnit() (any, complete bool) {
	file, link := exists(unitFile), exists(unitLink)
	return file || link, file && link
}

// unitInstalls reports whether the unit is for the user and the port of a request.
func unitInstalls(q Request) bool {
	text, err := os.ReadFile(unitFile)
	return err == nil && strings.Contains(string(text), fmt.Sprintf(" --user %s --port %d ", q.User, q.Port))
}

// unitProgram returns the program that the unit runs, or the reason why there can be no unit.
func unitProgram(user string) (string, error) {
	if !exists(running) || !installed("systemctl") {
		return "", fmt.Errorf("--persist makes a unit of systemd, which does not run this system; leave out --persist, and have what starts programs here "+
			"run perigee redirect install --user %s as root", user)
	}
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fmt.Errorf("the program of the unit: %w", err)
	}
	if strings.ContainsAny(path, "\"'\\\n") {
		return "", fmt.Errorf("systemd runs no program with quotation marks, backslashes or line breaks in its path, such as %q; "+
			"install perigee in /usr/local/bin, and run that", path)
	}
	for at := path; ; at = filepath.Dir(at) {
		if changeable, err := othersCanChange(at); err != nil || changeable {
			return "", errors.Join(err, fmt.Errorf("the unit would run %s as root, and users other than root can change %s; "+
				"install perigee where only root can write, such as /usr/local/bin, and run that", path, at))
		}
		if at == filepath.Dir(at) {
			return path, nil
		}
	}
}

// persist creates and enables the unit for the installed redirect. After an error nothing is left
// of it.
func (r *Redirect) persist(ctx context.Context, program string, now Status) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("the unit %s could not be made: %w", unitName, err), r.undoUnit(ctx))
		}
	}()
	text := fmt.Sprintf(unitText, now.User, firstWord(program), now.User, now.Port, now.Backend)
	if before, err := os.ReadFile(unitFile); err == nil && string(before) == text && exists(unitLink) {
		return nil
	}
	if err := atomicfile.Replace(unitFile, []byte(text), 0o644); err != nil {
		return err
	}
	if _, err := run(ctx, "", "systemctl", "daemon-reload"); err != nil {
		return err
	}
	if _, err := run(ctx, "", "systemctl", "enable", unitName); err != nil {
		return err
	}
	if !exists(unitLink) {
		return fmt.Errorf("systemctl enable has not made %s", unitLink)
	}
	return nil
}

func (r *Redirect) undoUnit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoPatience)
	defer cancel()
	return r.removeUnit(ctx)
}

// removeUnit disables the unit and removes its files, including files that are left without
// systemd.
func (r *Redirect) removeUnit(ctx context.Context) error {
	if any, _ := hasUnit(); !any {
		return nil
	}
	started := exists(running) && installed("systemctl")
	if started {
		// remaining files are removed below
		_, _ = run(ctx, "", "systemctl", "disable", "--now", unitName)
	}
	for _, path := range []string{unitLink, unitFile} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the unit could not be removed: %w", err)
		}
	}
	if !started {
		return nil
	}
	// returns an error if the unit has not failed
	_, _ = run(ctx, "", "systemctl", "reset-failed", unitName)
	if _, err := run(ctx, "", "systemctl", "daemon-reload"); err != nil {
		return fmt.Errorf("the unit %s is removed, but systemd does not know: %w; run systemctl daemon-reload", unitName, err)
	}
	return nil
}

// firstWord returns the path of a program as the first word of a command line in a unit. systemd
// does not expand variables there, so that $ is not escaped.
func firstWord(path string) string { return `"` + strings.ReplaceAll(path, "%", "%%") + `"` }
