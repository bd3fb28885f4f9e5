//go:build unix

package supervisor

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"perigee/internal/lib/peeruser"
	"perigee/internal/lib/procgroup"
)

// maxSocketPath is the longest path of a Unix socket that every system accepts.
const maxSocketPath = 103

// A parentPipe is a socket that a language server connects to. The language server ends when the
// socket closes, and the kernel closes it when perigee ends.
type parentPipe struct {
	listener *net.UnixListener
	name     string // of the socket
	// the only user that may connect, apart from root; nil for the user of perigee
	user *procgroup.User

	mu     sync.Mutex
	open   []net.Conn
	closed bool
	served sync.WaitGroup
}

func listenParentPipe(user *procgroup.User) (*parentPipe, error) {
	dir, err := socketDir(user)
	if err != nil {
		return nil, err
	}
	removeDead(dir)
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	id := hex.EncodeToString(random[:])
	fresh, name := filepath.Join(dir, "new_"+id), filepath.Join(dir, "server_"+id)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if user != nil { // accept checks the user of each connection
		err = os.Chmod(fresh, 0o666)
	}
	// A socket exists before it listens. Under its name it would look dead to another perigee for
	// that moment, and be removed.
	if err == nil {
		err = os.Rename(fresh, name)
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	listener.SetUnlinkOnClose(false) // it would remove the old name
	p := &parentPipe{listener: listener, name: name, user: user}
	p.served.Go(p.accept)
	return p, nil
}

// accept holds every connection until the pipe is closed. It reads nothing from them.
func (p *parentPipe) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.closed || !p.expects(conn) {
			_ = conn.Close()
		} else {
			p.open = append(p.open, conn)
		}
		p.mu.Unlock()
	}
}

// expects reports whether a connection is from the user of the process. It returns true on systems
// that do not report the user.
func (p *parentPipe) expects(conn net.Conn) bool {
	if p.user == nil {
		return true // no other user can enter the directory
	}
	peer, known := peeruser.SocketPeer(conn.(*net.UnixConn))
	return !known || peer.UID == -1 || peer.UID == p.user.UID || peer.UID == 0
}

// path returns the path for the language server, or "" for a nil pipe.
func (p *parentPipe) path() string {
	if p == nil {
		return ""
	}
	return p.name
}

// close ends the connections and removes the socket. It may be called more than once, and on a nil
// pipe.
func (p *parentPipe) close() {
	if p == nil {
		return
	}
	_ = p.listener.Close()
	_ = os.Remove(p.name)
	p.mu.Lock()
	p.closed = true
	for _, conn := range p.open {
		_ = conn.Close()
	}
	p.open = nil
	p.mu.Unlock()
	p.served.Wait()
}

// socketDir returns a directory with a short path that only this user can enter. A directory for a
// process of another user can be entered by all users, but not listed.
func socketDir(user *procgroup.User) (string, error) {
	if user != nil {
		return temporaryDir("/tmp/perigee-"+strconv.Itoa(os.Getuid())+"-"+strconv.Itoa(user.UID), 0o711)
	}
	const name = "/server_0123456789abcdef"
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" && len(dir)+len("/perigee")+len(name) <= maxSocketPath {
		if dir = filepath.Join(dir, "perigee"); ownDir(dir, 0o700) == nil {
			return dir, nil
		}
	}
	return temporaryDir("/tmp/perigee-"+strconv.Itoa(os.Getuid()), 0o700)
}

// temporaryDir returns a directory of this user. In a directory that all users can write to,
// another user may have taken the name: then it has a random suffix, which is found again the next
// time.
func temporaryDir(dir string, mode os.FileMode) (string, error) {
	err := ownDir(dir, mode)
	if err == nil {
		return dir, nil
	}
	others, _ := filepath.Glob(dir + ".*")
	for _, other := range others {
		if ownDir(other, mode) == nil {
			return other, nil
		}
	}
	other, failed := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".*")
	if failed == nil {
		failed = ownDir(other, mode)
	}
	if failed != nil {
		return "", errors.Join(err, failed)
	}
	return other, nil
}

// ownDir makes a directory with a mode, or checks that an existing one belongs to this user and
// changes its mode.
func ownDir(dir string, mode os.FileMode) error {
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Getuid() {
		return fmt.Errorf("%s is not a directory of this user; remove it", dir)
	}
	if info.Mode().Perm() != mode {
		return os.Chmod(dir, mode)
	}
	return nil
}

// removeDead removes the sockets of programs that were killed.
func removeDead(dir string) {
	paths, _ := filepath.Glob(filepath.Join(dir, "server_*"))
	for _, path := range paths {
		conn, err := net.Dial("unix", path)
		if err == nil {
			_ = conn.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(path)
		}
	}
}
