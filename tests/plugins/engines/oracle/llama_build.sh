#!/bin/sh
# Build llama.cpp's server from the source that the package llama-cpp-python holds, and write models for it.
#     llama_build.sh FOLDER PYTHON
# FOLDER gets `llama-server`, `tiny.gguf`, `window.gguf` and `state.gguf`. Needs cmake, ninja and a C++ compiler; about ten
# minutes, once.
set -e
VERSION=0.3.36  # llama.cpp 0c1e570
folder=$1 python=$2
tests=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$folder/source"
"$python" -m pip --disable-pip-version-check -q download --no-deps --no-binary :all: -d "$folder" "llama-cpp-python==$VERSION"
tar -xzf "$folder/llama_cpp_python-$VERSION.tar.gz" -C "$folder/source" --strip-components=1
cmake -G Ninja -S "$folder/source/vendor/llama.cpp" -B "$folder/work" -DCMAKE_BUILD_TYPE=None \
	-DCMAKE_C_FLAGS="-O1 -w" -DCMAKE_CXX_FLAGS="-O1 -w" -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF \
	-DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_TESTS=OFF \
	-DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_ALL_WARNINGS=OFF
cmake --build "$folder/work" --target llama-server
cp "$folder/work/bin/llama-server" "$folder/llama-server"
PYTHONPATH=$tests "$python" -m plugins.engines.oracle.llama_model "$folder"
rm -rf "$folder/work" "$folder/source" "$folder"/llama_cpp_python-*.tar.gz
