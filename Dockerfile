# docker build --tag tassis --build-arg COMMIT=$(git rev-parse --short=12 HEAD) . && docker run --volume tassis:/data --publish 127.0.0.1:8080:8080 tassis; docs/deployment.md has it for a server, with mail that comes in
FROM oven/bun:1.4.5-debian AS build
WORKDIR /build
COPY package.json bun.lock bunfig.toml ./
RUN bun install --frozen-lockfile
COPY tsconfig.json ./
COPY docs docs
COPY migrations migrations
COPY scripts scripts
COPY src src
ARG COMMIT=unknown
ARG SOURCE_DATE_EPOCH
RUN bun run build --commit "$COMMIT"

# What the executable needs of Debian: its C library, and libcrypto, which signs faster on some processors (see
# `tassis config`). No shell, no package manager, no program of another user.
FROM debian:bookworm-slim AS root
RUN apt-get update && apt-get install --yes --no-install-recommends libssl3
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin tassis \
  && mkdir --mode 0755 /root-fs /root-fs/etc && mkdir --mode 1777 /root-fs/tmp \
  && cp --parents --dereference /etc/passwd /etc/group /etc/nsswitch.conf /root-fs \
  && cp --parents --dereference /lib*/ld-linux-*.so.* /root-fs \
  && cd / && cp --parents --dereference lib/*-linux-gnu/libc.so.6 lib/*-linux-gnu/libm.so.6 \
  lib/*-linux-gnu/libdl.so.2 lib/*-linux-gnu/libpthread.so.0 /root-fs \
  && cp --parents --dereference usr/lib/*-linux-gnu/libcrypto.so.3 usr/lib/*-linux-gnu/libssl.so.3 /root-fs \
  && cp --parents usr/share/doc/libc6/copyright usr/share/doc/libssl3/copyright /root-fs \
  && install --directory --owner tassis --group tassis --mode 0700 /root-fs/data

FROM scratch
COPY --from=root /root-fs /
COPY --from=build /build/dist/tassis /usr/local/bin/tassis
ENV TASSIS_DATA_DIR=/data TASSIS_HTTP_ADDR=0.0.0.0:8080 PATH=/usr/local/bin
USER tassis
VOLUME /data
EXPOSE 8080 25
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=1m --timeout=10s --start-period=30s CMD ["tassis", "health"]
ENTRYPOINT ["/usr/local/bin/tassis"]
CMD ["serve"]
