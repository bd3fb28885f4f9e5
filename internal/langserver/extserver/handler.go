package extserver

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "perigee/gen/exa/extension_server_pb"
	"perigee/gen/exa/extension_server_pb/extensionserverpbconnect"
	"perigee/internal/langserver/connectframe"
	"perigee/internal/lib/lazyregexp"
	"perigee/internal/lib/netguard"
)

const (
	servicePath = "/" + extensionserverpbconnect.ExtensionServerServiceName + "/"
	csrfHeader  = "X-Codeium-Csrf-Token"
	otherMethod = "other"

	streamPrefix = "application/connect+" // of the content types of streams

	// for the body of a request that is refused, so that a caller without a token does not hold a
	// connection
	refusedBody = time.Second
)

// protocol describes the service.
var protocol = pb.File_exa_extension_server_pb_extension_server_proto.Services().ByName("ExtensionServerService")

// A front checks requests and hands them to the handler of their form.
type front struct {
	*Server
	connect http.Handler            // every method, in either form
	streams map[string]http.Handler // the methods that stream their answer, by path
	unary   map[string]http.Handler // the unary form of all methods, by path

	mu      sync.Mutex
	unknown map[string]bool // methods that were logged
}

func (s *Server) handler() http.Handler {
	options := []connect.HandlerOption{
		connect.WithReadMaxBytes(maxBody),
		connect.WithCompressMinBytes(math.MaxInt32), // answers stay on this machine
		connect.WithInterceptors(watch{}),
	}
	streams, unary := newService(s).handlers(options...)
	all := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler := streams[r.URL.Path]
		if handler == nil {
			handler = unary[r.URL.Path]
		}
		handler.ServeHTTP(w, r)
	})
	streaming := func(path string) bool { return streams[path] != nil }
	return &front{
		Server:  s,
		connect: connectframe.EitherForm(connectframe.AcceptBare(all, maxBody), streaming, maxBody),
		streams: streams,
		unary:   unary,
		unknown: map[string]bool{},
	}
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer f.open.begin()()
	c := &call{ResponseWriter: w, controller: http.NewResponseController(w)}
	defer c.end()
	defer context.AfterFunc(f.closing, c.endSoon)()

	method := strings.TrimPrefix(r.URL.Path, servicePath)
	counted, known := method, protocol.Methods().ByName(protoreflect.Name(method)) != nil
	if !known {
		counted = otherMethod
	}
	if status, text := f.refusal(r); status != 0 {
		f.calls.add(counted, strconv.Itoa(status))
		_ = c.controller.SetReadDeadline(time.Now().Add(refusedBody))
		w.Header().Set("Connection", "close")
		w.Header().Set("Content-Type", "text/plain")
		if status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", http.MethodPost)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
		return
	}
	streaming := strings.HasPrefix(mediaType(r), streamPrefix)
	handler := f.connect
	if !known {
		handler = http.HandlerFunc(f.serveUnknown)
	} else if f.streams[r.URL.Path] != nil && !streaming {
		handler = f.unary[r.URL.Path]
	}
	handler.ServeHTTP(c, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
	f.calls.add(counted, c.result(streaming))
}

// methodName matches the name of a method of a service, of up to maxMethodName bytes.
var methodName = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_]*$`)

const maxMethodName = 128

// refusal returns the HTTP status and the text for a request that must not reach a method, or 0 if
// it may.
func (f *front) refusal(r *http.Request) (int, string) {
	method, ours := strings.CutPrefix(r.URL.Path, servicePath)
	switch {
	case !f.csrf.Equal(r.Header.Get(csrfHeader)):
		return http.StatusForbidden, "Invalid CSRF token"
	case !f.peer(r):
		return http.StatusForbidden, "only processes of the user that runs perigee can call this server"
	case !netguard.IsLoopback(hostName(r.Host)):
		return http.StatusForbidden, "the Host header must name this machine"
	case len(r.Header.Values("Origin")) > 0:
		return http.StatusForbidden, "web pages cannot call this server"
	case r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed, "use POST"
	case !ours || len(method) > maxMethodName || !methodName().MatchString(method):
		return http.StatusNotFound, "the path is " + servicePath + "METHOD"
	}
	switch mediaType(r) {
	case "application/proto", "application/json", "application/connect+proto", "application/connect+json":
		return 0, ""
	}
	return http.StatusUnsupportedMediaType, "the content type is application/proto, application/json, " +
		"application/connect+proto or application/connect+json"
}

func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

func mediaType(r *http.Request) string {
	name, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(name))
}

// serveUnknown answers a method that the protocol does not have, because later language servers
// may have more. Each is logged once.
func (f *front) serveUnknown(w http.ResponseWriter, r *http.Request) {
	length, err := io.Copy(io.Discard, io.LimitReader(r.Body, maxBody+1))
	kind := mediaType(r)
	f.logUnknown(strings.TrimPrefix(r.URL.Path, servicePath), kind, length)
	if err == nil && length > maxBody {
		_ = connect.NewErrorWriter().Write(w, r, connect.NewError(connect.CodeResourceExhausted, errors.New("the request is too large")))
		return
	}
	w.Header().Set("Content-Type", kind)
	switch {
	case strings.HasPrefix(kind, streamPrefix):
		_, _ = w.Write(connectframe.EndFrame(nil))
	case kind == "application/json":
		_, _ = io.WriteString(w, "{}")
	}
}

func (f *front) logUnknown(method, contentType string, length int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unknown[method] || len(f.unknown) >= 256 {
		return
	}
	f.unknown[method] = true
	f.opts.Logger.Info("language server called an unknown method", "method", method, "content_type", contentType, "length", length)
}
