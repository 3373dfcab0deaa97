# Sourced by scripts that enter a build of their own: build_folder IMAGE FOLDER makes a folder of the server in an image of Redis, with its
# command-line tool and its libraries, as `--release redis=FOLDER` takes it.

build_folder() {
  local container
  mkdir "$2"
  container=$(docker create --label testbed.test=build-folder "$1" redis-server)
  {
    # In Debian's package the server is a link to another program.
    docker cp -L "$container:/usr/bin/redis-server" "$2/redis-server" &&
      docker cp "$container:/usr/bin/redis-cli" "$2/redis-cli" &&
      docker cp "$container:/usr/lib/$(uname -m)-linux-gnu" "$2/lib"
  } || {
    docker rm "$container" >/dev/null
    return 5
  }
  docker rm "$container" >/dev/null
}
