package extserver

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"connectrpc.com/connect"

	pb "perigee/gen/exa/extension_server_pb"
)

// WriteCascadeEdit replaces the text of a file in the workspace, or makes the file.
func (s *service) WriteCascadeEdit(_ context.Context, req *connect.Request[pb.WriteCascadeEditRequest]) (
	*connect.Response[pb.WriteCascadeEditResponse], error) {
	name, err := s.editable(req.Msg.GetUri())
	if err != nil {
		return nil, err
	}
	if err := writeFile(s.root, name, []byte(req.Msg.GetTargetContent())); err != nil {
		return nil, fileError(err)
	}
	return empty[pb.WriteCascadeEditResponse]()
}

// SaveDocument has nothing to save, because there are no editors with unsaved text.
func (s *service) SaveDocument(_ context.Context, req *connect.Request[pb.SaveDocumentRequest]) (
	*connect.Response[pb.SaveDocumentResponse], error) {
	name, err := s.editable(req.Msg.GetUri())
	if err != nil {
		return nil, err
	}
	if _, err := s.root.Stat(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fileError(err)
	}
	return empty[pb.SaveDocumentResponse]()
}

// editable returns the name of a file in the workspace that the language server may write.
func (s *service) editable(uri string) (string, error) {
	if !s.opts.AllowEdit || s.root == nil {
		return "", connect.NewError(connect.CodePermissionDenied, errors.New("edits are not allowed: add edit to allow"))
	}
	return s.inWorkspace(uri)
}

var errOutside = connect.NewError(connect.CodePermissionDenied, errors.New("the path is outside of the workspace"))

// inWorkspace returns the path of a file URI, relative to the workspace. Links are for os.Root to check.
func (s *service) inWorkspace(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme == "" || u.RawQuery != "" || u.Fragment != "" || strings.ContainsRune(u.Path, 0) {
		return "", connect.NewError(connect.CodeInvalidArgument, errors.New("a file is named by a URI such as file:///directory/file"))
	}
	if u.Scheme != "file" || u.Opaque != "" || u.User != nil || u.Host != "" && !strings.EqualFold(u.Host, "localhost") {
		return "", errOutside
	}
	return s.relative(fromURI(u.Path))
}

// fromURI is the path in the notation of the system: /C:/directory is C:\directory on Windows.
func fromURI(path string) string {
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, "/")
	}
	return filepath.FromSlash(path)
}

// relative returns an absolute path relative to the workspace, which may be named through links or without them.
func (s *service) relative(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", errOutside
	}
	for _, dir := range s.workspaceNames() {
		if name, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(name) {
			return name, nil
		}
	}
	return "", errOutside
}

func (s *service) workspaceNames() []string {
	var names []string
	if dir, err := filepath.Abs(s.opts.Workspace); err == nil {
		names = append(names, dir)
		if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
			names = append(names, real)
		}
	}
	return names
}

const separator = string(filepath.Separator)

// parent is the directory of a name. Unlike filepath.Dir it keeps every .. in it.
func parent(name string) string {
	if i := strings.LastIndex(name, separator); i >= 0 {
		return name[:i]
	}
	return "."
}

// maxLinks is how many links a name may lead through.
const maxLinks = 16

// writeFile writes a file whole or not at all, and keeps the mode of the one that was there. A link stays, and the file that it
// leads to is written. Every step is confined to root, also while directories are replaced by links.
func writeFile(root *os.Root, name string, data []byte) error {
	for range maxLinks {
		info, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			if err := root.MkdirAll(parent(name), 0o755); err != nil {
				return err
			}
			return replaceFile(root, name, data, 0)
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if !info.Mode().IsRegular() {
				return &fs.PathError{Op: "write", Path: name, Err: syscall.EINVAL}
			}
			return replaceFile(root, name, data, info.Mode().Perm())
		}
		target, err := root.Readlink(name)
		if err != nil {
			return err
		}
		if filepath.IsAbs(target) {
			return errOutside
		}
		name = parent(name) + separator + filepath.FromSlash(target) // not cleaned: what is before a .. may be a link
	}
	return &fs.PathError{Op: "write", Path: name, Err: syscall.ELOOP}
}

// replaceFile writes a new file beside the named one and gives it that name. A mode of 0 is that of a new file.
func replaceFile(root *os.Root, name string, data []byte, mode fs.FileMode) error {
	dir, err := root.OpenRoot(parent(name)) // the same directory for both names, whatever happens to its path
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	temporary := ".perigee-" + rand.Text() + ".tmp"
	create := fs.FileMode(0o600)
	if mode == 0 {
		create = 0o644 // less what the umask takes
	}
	f, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, create)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && mode != 0 {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = dir.Rename(temporary, strings.TrimPrefix(name, parent(name)+separator))
	}
	if err != nil {
		_ = dir.Remove(temporary)
	}
	return err
}

// fileError gives an error of the file system a code, and leaves paths of this machine out. What the system did not refuse
// itself, os.Root did: the path leads out of the workspace.
func fileError(err error) error {
	if coded := (*connect.Error)(nil); errors.As(err, &coded) {
		return coded
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	code := connect.CodeInternal
	switch {
	case !ok:
		return errOutside
	case errors.Is(err, fs.ErrPermission):
		code = connect.CodePermissionDenied
	case errors.Is(err, fs.ErrNotExist):
		code = connect.CodeNotFound
	case errno == syscall.EINVAL, errno == syscall.EISDIR, errno == syscall.ENOTDIR, errno == syscall.ELOOP, errno == syscall.ENAMETOOLONG:
		code = connect.CodeInvalidArgument
	}
	return connect.NewError(code, errno)
}
