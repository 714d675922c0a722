/**
 * @module Debian's Caddy, HAProxy and nginx for tests: run the documented configuration on free ports of 127.0.0.1 and ::1, with
 * files in a temporary folder. Contact no external certificate authority, install no trust on the machine, and leave
 * its own services alone.
 */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { findFreePort } from '#test/support/free-port.ts'
import { eventually } from './app.ts'
import { createCertificateAuthority } from './certificates.ts'

export interface ReverseProxy extends AsyncDisposable {
  /** HTTPS port. */
  readonly port: number
  /** The certificate authority of all its certificates, PEM. */
  readonly caPem: string
  /** Its log. */
  log(): string
}

export interface Caddy extends ReverseProxy {
  /** HTTP port on ::1, which redirects to HTTPS. */
  readonly httpPort: number
  /** Host names with a certificate, in alphabetical order. */
  certificates(): string[]
}

const START_TRIES = 3
/** Debian installs servers in a folder that is not in the PATH of ordinary users. */
const PATH = `${process.env['PATH'] ?? ''}:/usr/sbin`

/**
 * Whether tests with a proxy can run. Logs the reason once if not, unless the environment requires the tests (`CI` or
 * `REQUIRE_PROXIES` is `true`): then they run, and fail without it.
 */
export function isProxyAvailable(program: 'caddy' | 'haproxy' | 'nginx'): boolean {
  if (process.env['CI'] === 'true' || process.env['REQUIRE_PROXIES'] === 'true') return true
  const isInstalled = Bun.which(program, { PATH }) !== null
  if (!isInstalled) console.warn(`Tests with ${program} are skipped: the package ${program} is not installed`)
  return isInstalled
}

/** Options that differ between a test and a server: ports, paths, and the issuer of certificates. */
const caddyOptions = (folder: string, port: number, httpPort: number): string => `
	admin off
	local_certs
	skip_install_trust
	http_port ${httpPort}
	https_port ${port}
	default_bind 127.0.0.1 ::1
	storage file_system ${join(folder, 'store')}
`

/**
 * Starts Caddy and resolves when it has a certificate for `host`. Throws with its log when it does not start.
 * @param caddyfile begins with its global options, which a test extends
 */
export async function startCaddy(caddyfile: string, host: string): Promise<Caddy> {
  if (!caddyfile.startsWith('{\n')) throw new TypeError('the Caddyfile has no global options at its beginning')
  const certificatesIn = (folder: string): string[] =>
    [...new Bun.Glob('store/certificates/local/*/*.crt').scanSync(folder)]
      .map((path) => path.slice(path.lastIndexOf('/') + 1, -'.crt'.length))
      .sort()
  const started = await start('caddy', async (folder) => {
    const [port, httpPort] = await Promise.all([findFreePort(), findFreePort()])
    const file = join(folder, 'Caddyfile')
    writeFileSync(file, `{${caddyOptions(folder, port, httpPort)}${caddyfile.slice(1)}`)
    return {
      ports: { port, httpPort },
      command: ['caddy', 'run', '--config', file, '--adapter', 'caddyfile'],
      // It binds its ports before it logs this.
      isUp: (log) => log.includes('serving initial configuration') && certificatesIn(folder).includes(host),
    }
  })
  const { folder, ports, log, stop } = started
  return {
    ...ports,
    caPem: readFileSync(join(folder, 'store/pki/authorities/local/root.crt'), 'utf8'),
    certificates: () => certificatesIn(folder),
    log,
    [Symbol.asyncDispose]: stop,
  }
}

/**
 * Starts nginx with one certificate for `names`, and resolves when it is ready. Throws with its log when it does not
 * start.
 * @param files path below /etc/nginx -> content; files in conf.d are loaded, and use ports 443 and certificates of
 * /etc/letsencrypt/live
 */
export async function startNginx(
  files: Readonly<Record<string, string>>,
  names: readonly string[],
): Promise<ReverseProxy> {
  const ca = createCertificateAuthority()
  const { cert, key } = ca.issue(names)
  const { ports, log, stop } = await start('nginx', async (folder) => {
    const port = await findFreePort()
    const inFolder: Record<string, string> = {
      ...files,
      'fullchain.pem': cert,
      'privkey.pem': key,
      'nginx.conf': nginxSettings(folder),
    }
    for (const [path, text] of Object.entries(inFolder)) {
      mkdirSync(join(folder, dirname(path)), { recursive: true })
      writeFileSync(
        join(folder, path),
        text
          .replaceAll('listen 443 ', `listen 127.0.0.1:${port} `)
          .replaceAll('listen [::]:443 ', `listen [::1]:${port} `)
          .replaceAll(/\/etc\/letsencrypt\/live\/[^/]+/g, folder),
      )
    }
    // Its workers run as another user.
    chmodSync(folder, 0o711)
    return {
      ports: { port },
      command: ['nginx', '-p', folder, '-c', join(folder, 'nginx.conf'), '-e', 'stderr'],
      // Written once its ports are bound.
      isUp: () => existsSync(join(folder, 'pid')),
    }
  })
  return { ...ports, caPem: ca.pem, log, [Symbol.asyncDispose]: stop }
}

/** Starts HAProxy with one certificate for `names` in place of those that the configuration names. */
export async function startHaproxy(config: string, names: readonly string[]): Promise<ReverseProxy> {
  const ca = createCertificateAuthority()
  const { cert, key } = ca.issue(names)
  const { ports, log, stop } = await start('haproxy', async (folder) => {
    const [port, httpPort] = await Promise.all([findFreePort(), findFreePort()])
    const file = join(folder, 'haproxy.cfg')
    writeFileSync(join(folder, 'pair.pem'), cert + key)
    writeFileSync(
      file,
      config
        .replace('bind :443 ', `bind 127.0.0.1:${port} `)
        .replace('bind :80\n', `bind 127.0.0.1:${httpPort}\n`)
        .replace(/crt \S+/, `crt ${join(folder, 'pair.pem')}`),
    )
    return {
      ports: { port },
      command: ['haproxy', '-W', '-db', '-f', file],
      isUp: (text) => text.includes('Loading success'),
    }
  })
  return { ...ports, caPem: ca.pem, log, [Symbol.asyncDispose]: stop }
}

/** The configuration around conf.d from Debian's nginx.conf, with all files in one folder. */
const nginxSettings = (folder: string): string => `daemon off;
worker_processes 1;
pid ${join(folder, 'pid')};
events {}
http {
	access_log off;
	${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((kind) => `${kind}_temp_path ${join(folder, kind)};`).join('\n\t')}
	include conf.d/*.conf;
}
`

interface Prepared<Ports> {
  readonly ports: Ports
  readonly command: string[]
  isUp(log: string): boolean
}

interface Started<Ports> {
  readonly folder: string
  readonly ports: Ports
  log(): string
  stop(): Promise<void>
}

/** Another process may take the free port before the proxy does: then another port is tried. */
async function start<Ports>(
  name: string,
  prepare: (folder: string) => Promise<Prepared<Ports>>,
): Promise<Started<Ports>> {
  for (let tries = 1; ; tries++) {
    const folder = mkdtempSync(join(tmpdir(), `tassis-${name}-`))
    const { ports, command, isUp } = await prepare(folder)
    const logFile = join(folder, 'log')
    writeFileSync(logFile, '')
    const child = Bun.spawn(command, {
      cwd: folder,
      env: { PATH, HOME: folder },
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: Bun.file(logFile),
    })
    const isRunning = () => child.exitCode === null && child.signalCode === null
    const log = () => readFileSync(logFile, 'utf8')
    const stop = async () => {
      child.kill('SIGTERM')
      await child.exited
      rmSync(folder, { recursive: true, force: true })
    }
    await eventually(() => !isRunning() || isUp(log()))
    if (isRunning()) return { folder, ports, log, stop }
    const logText = log()
    await stop()
    if (tries === START_TRIES) throw new Error(`${name} did not start.\n${logText}`)
  }
}
