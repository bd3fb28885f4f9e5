package redirect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// madeHere is the comment of users that were made here.
const madeHere = "made by perigee redirect"

// passwords is the file of users.
const passwords = "/etc/passwd"

// madeUsers returns the users that were made here.
func madeUsers() ([]user.User, error) {
	text, err := os.ReadFile(passwords)
	if err != nil {
		return nil, err
	}
	var all []user.User
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 7 && f[4] == madeHere {
			all = append(all, user.User{Username: f[0], Uid: f[2], Gid: f[3], Name: f[4], HomeDir: f[5]})
		}
	}
	return all, nil
}

// ensureUser returns a user, and creates it if there is none.
func (r *Redirect) ensureUser(ctx context.Context, name string) (u *user.User, isNew bool, err error) {
	home := filepath.Join(r.dir, name)
	if u, err = user.Lookup(name); err != nil {
		shell := "/usr/sbin/nologin"
		if _, err := os.Stat(shell); err != nil {
			shell = "/sbin/nologin"
		}
		if !installed("useradd") {
			return nil, false, fmt.Errorf("there is no user %s, and useradd is not installed to make one; make the user yourself, then run this again", name)
		}
		isNew = true
		_, err = run(ctx, "", "useradd", "--system", "--user-group", "--no-create-home", "--home-dir", home, "--shell", shell, "--comment", madeHere, name)
		if err == nil {
			u, err = user.Lookup(name)
		}
		if err != nil {
			return nil, isNew, fmt.Errorf("the user %s could not be made: %w", name, err)
		}
	}
	if u.Name != madeHere || u.HomeDir != home {
		return u, isNew, nil
	}
	return u, isNew, makeHome(u)
}

// makeHome makes the directory of a user that was made here.
func makeHome(u *user.User) error {
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := os.Mkdir(u.HomeDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Lchown(u.HomeDir, uid, gid)
}

// removeUsers removes the users that were made here, with their groups and directories.
func (r *Redirect) removeUsers(ctx context.Context) error {
	made, err := madeUsers()
	if err != nil {
		return err
	}
	for _, u := range made {
		if _, err := run(ctx, "", "userdel", u.Username); err != nil {
			return fmt.Errorf("the user %s could not be removed: %w; stop perigee and its language server, then run perigee redirect remove again", u.Username, err)
		}
		// On some systems userdel does not remove the group.
		if group, err := user.LookupGroup(u.Username); err == nil && group.Gid == u.Gid {
			if _, err := run(ctx, "", "groupdel", u.Username); err != nil {
				return fmt.Errorf("the group %s could not be removed: %w", u.Username, err)
			}
		}
		if u.HomeDir == filepath.Join(r.dir, u.Username) {
			if err := os.RemoveAll(u.HomeDir); err != nil {
				return err
			}
		}
	}
	return nil
}
