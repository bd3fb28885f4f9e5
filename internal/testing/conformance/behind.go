//go:build unix

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"google.golang.org/protobuf/encoding/protowire"

	"perigee/internal/testing/mitmfront"
)

// The fields of the message with the server's address, for the suite.
const (
	hostField = 1
	portField = 2
	certField = 3
)

// behind is a server for the suite: the given one, behind an interception proxy.
func behind(server string) (err error) {
	command := exec.Command(server)
	command.Stdin, command.Stderr = os.Stdin, os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	if err := command.Start(); err != nil {
		return err
	}
	defer func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait() // it was asked to end
	}()
	port, roots, err := readPlace(stdout)
	if err != nil {
		return fmt.Errorf("read where %s listens: %w", server, err)
	}
	proxy, err := mitmfront.Open(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), roots)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	if _, err := os.Stdout.Write(place(mitmfront.Host, proxy.Addr.Port, proxy.Roots)); err != nil {
		return err
	}
	<-ended
	return nil
}

// place is the message with the server's address, after its length.
func place(host string, port int, cert []byte) []byte {
	var message []byte
	message = protowire.AppendTag(message, hostField, protowire.BytesType)
	message = protowire.AppendString(message, host)
	message = protowire.AppendTag(message, portField, protowire.VarintType)
	message = protowire.AppendVarint(message, uint64(port))
	message = protowire.AppendTag(message, certField, protowire.BytesType)
	message = protowire.AppendBytes(message, cert)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
}

func readPlace(r io.Reader) (port int, cert []byte, err error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return 0, nil, err
	}
	message := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(r, message); err != nil {
		return 0, nil, err
	}
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return 0, nil, protowire.ParseError(n)
		}
		value := message[n:]
		size := protowire.ConsumeFieldValue(field, kind, value)
		if size < 0 {
			return 0, nil, protowire.ParseError(size)
		}
		switch field {
		case portField:
			number, _ := protowire.ConsumeVarint(value)
			port = int(number)
		case certField:
			cert, _ = protowire.ConsumeBytes(value)
		}
		message = value[size:]
	}
	if port == 0 || len(cert) == 0 {
		return 0, nil, errors.New("no port, or no certificate")
	}
	return port, cert, nil
}
