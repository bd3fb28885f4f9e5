package extserver

import (
	"context"
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"syscall"

	"connectrpc.com/connect"

	"perigee"
	pb "perigee/gen/exa/extension_server_pb"
	"perigee/internal/lib/filetool"
)

// WriteCascadeEdit replaces the text of a file in the workspace, or makes the file and its
// directories.
func (s *service) WriteCascadeEdit(ctx context.Context, req *pb.WriteCascadeEditRequest) (*pb.WriteCascadeEditResponse, error) {
	if err := s.editable(req.GetUri()); err != nil {
		return nil, err
	}
	_, err := s.files.Write(ctx, filetool.WriteInput{
		Path:       req.GetUri(),
		Content:    base64.StdEncoding.EncodeToString([]byte(req.GetTargetContent())),
		Encoding:   "base64", // keeps line endings unchanged
		CreateDirs: true,
	})
	if err != nil {
		return nil, fileError(err)
	}
	return &pb.WriteCascadeEditResponse{}, nil
}

// SaveDocument does nothing, because there are no editors with unsaved text.
func (s *service) SaveDocument(_ context.Context, req *pb.SaveDocumentRequest) (*pb.SaveDocumentResponse, error) {
	if err := s.editable(req.GetUri()); err != nil {
		return nil, err
	}
	_, _, err := s.files.Find(req.GetUri())
	if err != nil && perigee.AsError(err).Class != perigee.ClassNotFound {
		return nil, fileError(err)
	}
	return &pb.SaveDocumentResponse{}, nil
}

// editable returns an error if a URI is not a file that the language server may write. The
// workspace checks its location.
func (s *service) editable(uri string) error {
	if !s.opts.AllowEdit || s.files == nil {
		return connect.NewError(connect.CodePermissionDenied,
			errors.New("edits are not allowed: add edit to allow"))
	}
	return checkURI(uri)
}

var errOutside = connect.NewError(connect.CodePermissionDenied, errors.New("the path is outside of the workspace"))

// checkURI returns an error if a URI is not a file on this machine.
func checkURI(uri string) error {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme == "" {
		return connect.NewError(connect.CodeInvalidArgument,
			errors.New("a file is named by a URI such as file:///directory/file"))
	}
	here := u.Host == "" || strings.EqualFold(u.Host, "localhost")
	if u.Scheme != "file" || !strings.HasPrefix(u.Path, "/") || u.User != nil || !here {
		return errOutside
	}
	return nil
}

// fileError adds a code to an error of the workspace, and removes absolute paths of this machine.
func fileError(err error) error {
	e := perigee.AsError(err)
	code := connect.CodeInternal
	switch e.Class {
	case perigee.ClassForbidden:
		code = connect.CodePermissionDenied
	case perigee.ClassNotFound:
		code = connect.CodeNotFound
	case perigee.ClassInvalid:
		code = connect.CodeInvalidArgument
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return connect.NewError(code, errno)
	} else if e.Class == perigee.ClassForbidden {
		return errOutside
	}
	return connect.NewError(code, errors.New(e.Message))
}
