package extserver

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	pb "perigee/gen/exa/extension_server_pb"
)

// tokenSecret is the name under which older language servers request the access token.
const tokenSecret = "oauth_token"

// Limits of the secrets that the language server stores.
const (
	maxSecrets     = 1_000
	maxSecretBytes = 4 << 20
)

// SetToken replaces the access token, also on open streams. The zero Token removes it.
func (s *Server) SetToken(token Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token.Access.Reveal() == s.token.Access.Reveal() && token.Expiry.Equal(s.token.Expiry) {
		return
	}
	s.token = token
	if token.Access.IsZero() {
		s.topics.Delete(tokenRow.topic, tokenRow.key)
		return
	}
	s.topics.Set(tokenRow.topic, tokenRow.key, tokenValue(token))
}

func (s *Server) currentToken() Token {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token
}

func (s *service) GetSecretValue(_ context.Context, req *pb.GetSecretValueRequest) (*pb.GetSecretValueResponse, error) {
	key := req.GetKey()
	var value string
	var ok bool
	if key == tokenSecret {
		value = s.currentToken().Access.Reveal()
		ok = value != ""
	} else {
		s.mu.Lock()
		value, ok = s.secrets[key]
		s.mu.Unlock()
	}
	if !ok {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("secret not found"))
	}
	return &pb.GetSecretValueResponse{Value: value}, nil
}

// StoreSecretValue keeps a secret in memory. It does not change the access token.
func (s *service) StoreSecretValue(_ context.Context, req *pb.StoreSecretValueRequest) (*pb.StoreSecretValueResponse, error) {
	key, value := req.GetKey(), req.GetValue()
	if key == tokenSecret {
		return &pb.StoreSecretValueResponse{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, had := s.secrets[key]
	bytes, count := s.secretBytes-len(before)+len(value), len(s.secrets)
	if !had {
		bytes, count = bytes+len(key), count+1
	}
	if bytes > maxSecretBytes || count > maxSecrets {
		return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("too many secrets are stored"))
	}
	if s.secrets == nil {
		s.secrets = map[string]string{}
	}
	s.secrets[key], s.secretBytes = value, bytes
	return &pb.StoreSecretValueResponse{}, nil
}
