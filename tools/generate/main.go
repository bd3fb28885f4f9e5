// Command generate writes Go code for the files of a directory of protocol buffers:
//
//	go run ./generate -module perigee/gen ../proto ../gen
//
// It compiles the files and passes them to protoc-gen-go and protoc-gen-connect-go, as protoc does.
// Files in the output directory that nothing is generated for any more are removed.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	module := flag.String("module", "", "the import path of the output directory")
	flag.Parse()
	if *module == "" || flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate -module PATH PROTO GEN")
		os.Exit(2)
	}
	if err := generate(context.Background(), *module, flag.Arg(0), flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// generate replaces the directory to with the code for the files in from. It changes nothing if
// something fails before.
func generate(ctx context.Context, module, from, to string) error {
	request, err := compile(ctx, from)
	if err != nil {
		return err
	}
	request.Parameter = proto.String("module=" + module)
	var files []*pluginpb.CodeGeneratorResponse_File
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-connect-go"} {
		made, err := run(ctx, plugin, request)
		if err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
		files = append(files, made...)
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	for _, f := range files {
		name := filepath.Join(to, filepath.FromSlash(f.GetName()))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compile returns the request to a plugin for all files in a directory, without its parameter.
func compile(ctx context.Context, dir string) (*pluginpb.CodeGeneratorRequest, error) {
	var names []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".proto") {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no .proto files in %s", dir)
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments
	}
	compiled, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: names}
	for _, file := range compiled {
		request.ProtoFile = withImports(request.ProtoFile, file)
	}
	return request, nil
}

// withImports appends a file after the files that it imports. It leaves out what is there already.
func withImports(files []*descriptorpb.FileDescriptorProto, file protoreflect.FileDescriptor) []*descriptorpb.FileDescriptorProto {
	if slices.ContainsFunc(files, func(f *descriptorpb.FileDescriptorProto) bool { return f.GetName() == file.Path() }) {
		return files
	}
	imports := file.Imports()
	for i := range imports.Len() {
		files = withImports(files, imports.Get(i).FileDescriptor)
	}
	return append(files, protoutil.ProtoFromFileDescriptor(file))
}

// run returns the files that a plugin generates for a request.
func run(ctx context.Context, plugin string, request *pluginpb.CodeGeneratorRequest) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	in, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return response.GetFile(), nil
}
