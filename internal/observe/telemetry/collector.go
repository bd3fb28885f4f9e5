package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"perigee/internal/lib/wire"
)

const (
	tries     = 4                      // of a batch
	firstWait = 500 * time.Millisecond // before the second try; doubled for each further one
	logPause  = time.Minute            // between two lines about a collector that fails
	maxAnswer = 64 << 10               // bytes that are read of an answer
)

// A collector is an otlptrace.Client that sends OTLP over HTTP. The official one depends on gRPC,
// which would add several megabytes to the binary.
type collector struct {
	url    string
	header http.Header
	client *http.Client
	logger *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	lost    int       // spans, since the last line in the log
	logged  time.Time // when that was
	failing bool
}

func newCollector(set Settings, opts Options) (*collector, error) {
	c := &collector{client: wire.NewClient(opts.transport), logger: opts.Logger, now: opts.Now, header: http.Header{
		"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {"gzip"}, "User-Agent": {"perigee/" + opts.Version},
	}}
	var err error
	if c.url, err = tracesURL(set.Endpoint); err != nil {
		return nil, err
	}
	maps.Copy(c.header, set.Header)
	return c, nil
}

// tracesURL is where a collector takes traces: below its URL, as for OTEL_EXPORTER_OTLP_ENDPOINT,
// unless that is the whole path.
func tracesURL(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return "", errors.New("telemetry.otlp_endpoint is no URL")
	}
	if !strings.HasSuffix(u.Path, "/v1/traces") {
		u = u.JoinPath("v1", "traces")
	}
	return u.String(), nil
}

// Start does nothing: the collector is reached with the first spans.
func (c *collector) Start(context.Context) error { return nil }

// Stop closes connections.
func (c *collector) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans. While the collector is out of reach or overloaded, they are sent again
// a few times, until ctx ends.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// On the wire, TracesData is the same as the ExportTraceServiceRequest of OTLP; the package of
	// that depends on gRPC.
	raw, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	var body bytes.Buffer
	zip := gzip.NewWriter(&body)
	_, _ = zip.Write(raw) // a buffer takes everything
	_ = zip.Close()
	for try, wait := 1, firstWait; ; try, wait = try+1, 2*wait {
		after, err := c.post(ctx, body.Bytes())
		if err == nil || after < 0 || try == tries {
			return err
		}
		select {
		case <-time.After(max(wait, after)):
		case <-ctx.Done():
			return err
		}
	}
}

// post sends a request once. After an error, retry is the time after which it may be sent again; it
// is negative if it may not.
func (c *collector) post(ctx context.Context, body []byte) (retry time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	req.Header = c.header.Clone()
	resp, err := c.client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL, which may have a password
		}
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case resp.StatusCode/100 == 2 && err == nil:
		return -1, c.accepted(answer)
	case resp.StatusCode/100 == 2:
		return -1, nil // it was accepted, and the rest of the answer does not matter
	}
	// The collector's body is not repeated, because it may quote the headers.
	err = fmt.Errorf("the collector answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return time.Duration(max(seconds, 0)) * time.Second, err
	}
	return -1, err
}

// accepted reads an ExportTraceServiceResponse, which has the number of rejected spans.
func (c *collector) accepted(answer []byte) error {
	partial := field(answer, 1)
	if rejected, n := protowire.ConsumeVarint(field(partial, 1)); n > 0 && rejected > 0 {
		return fmt.Errorf("the collector rejected %d spans", rejected)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing {
		c.failing = false
		c.logger.Info("spans are accepted again")
	}
	return nil
}

// field returns the content of a field of a message: of a message without its length, and of a
// number in its encoding.
func field(message []byte, number protowire.Number) []byte {
	for len(message) > 0 {
		num, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(num, kind, message)
		switch {
		case size < 0:
			return nil
		case num == number && kind == protowire.BytesType:
			content, _ := protowire.ConsumeBytes(message)
			return content
		case num == number:
			return message[:size]
		}
		message = message[size:]
	}
	return nil
}

// failed logs that spans were lost, once a minute.
func (c *collector) failed(err error, spans int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing = true
	c.lost += spans
	if now := c.now(); c.logged.IsZero() || now.Sub(c.logged) >= logPause {
		c.logger.Warn("spans were not sent", "spans", c.lost, "error", err)
		c.lost, c.logged = 0, now
	}
}
