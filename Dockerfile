# docker build --tag tassis --build-arg COMMIT=$(git rev-parse --short=12 HEAD) . && docker run --volume tassis:/data --publish 127.0.0.1:8080:8080 tassis; docs/deployment.md has it for a server, with mail that comes in
FROM oven/bun:1.4.5-debian AS build
WORKDIR /build
COPY package.json bun.lock bunfig.toml ./
RUN bun install --frozen-lockfile
COPY tsconfig.json ./
COPY migrations migrations
COPY scripts scripts
COPY src src
ARG COMMIT=unknown
RUN bun run build --commit "$COMMIT"

FROM debian:bookworm-slim
# Has libcrypto, which signs faster on some processors; see `tassis config`.
RUN apt-get update && apt-get install --yes --no-install-recommends libssl3 && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin tassis \
  && install --directory --owner tassis --group tassis --mode 0700 /data
COPY --from=build /build/dist/tassis /usr/local/bin/tassis
ENV TASSIS_DATA_DIR=/data TASSIS_HTTP_ADDR=0.0.0.0:8080
USER tassis
VOLUME /data
EXPOSE 8080 25
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=1m --timeout=10s --start-period=30s CMD ["tassis", "health"]
ENTRYPOINT ["/usr/local/bin/tassis"]
CMD ["serve"]
