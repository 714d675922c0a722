/**
 * @module Debian's Pebble, an ACME server (RFC 8555) for tests, on free ports of 127.0.0.1. It validates hosts on the
 * ports that a test gives, at the addresses of a test's DNS server.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findFreePort } from '#test/support/free-port.ts'
import { eventually } from './app.ts'
import { createCertificateAuthority } from './certificates.ts'

export interface Pebble extends AsyncDisposable {
  readonly directoryUrl: string
  /** The authority of its own HTTPS, for TASSIS_EXTRA_CA_FILE. */
  readonly caFile: string
  /** The root of the certificates that it issues, PEM. */
  rootPem(): Promise<string>
  /** Its log. */
  log(): string
}

export interface PebbleOptions {
  /** `127.0.0.1:port` */
  readonly dnsServer: string
  /** Where it looks for HTTP-01 and TLS-ALPN-01. */
  readonly httpPort: number
  readonly tlsPort: number
  /** How long its certificates are valid, in seconds; default: its own, five years. */
  readonly validitySeconds?: number
  /** Share of nonces that it rejects; default 20 %. */
  readonly rejectedNoncesPercent?: number
}

/**
 * Whether tests with Pebble can run. Logs the reason once if not, unless the environment requires the tests (`CI` or
 * `REQUIRE_PEBBLE` is `true`): then they run, and fail without it.
 */
export function isPebbleAvailable(): boolean {
  if (process.env['CI'] === 'true' || process.env['REQUIRE_PEBBLE'] === 'true') return true
  const isInstalled = Bun.which('pebble') !== null
  if (!isInstalled) console.warn('Tests with Pebble are skipped: the package pebble is not installed')
  return isInstalled
}

const START_TRIES = 3

/** Starts Pebble and resolves when it answers. Throws with its log when it does not start. */
export async function startPebble(options: PebbleOptions): Promise<Pebble> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start(options)
    } catch (error) {
      // Another program may have taken a port that was free.
      if (attempt >= START_TRIES) throw error
    }
  }
}

async function start(options: PebbleOptions): Promise<Pebble> {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-pebble-'))
  const path = (name: string) => join(folder, name)
  const [port, managementPort] = await Promise.all([findFreePort(), findFreePort()])
  const authority = createCertificateAuthority('Pebble HTTPS')
  const { cert, key } = authority.issue(['127.0.0.1'])
  writeFileSync(path('ca.pem'), authority.pem)
  writeFileSync(path('cert.pem'), cert)
  writeFileSync(path('key.pem'), key)
  const settings = {
    listenAddress: `127.0.0.1:${port}`,
    managementListenAddress: `127.0.0.1:${managementPort}`,
    certificate: path('cert.pem'),
    privateKey: path('key.pem'),
    httpPort: options.httpPort,
    tlsPort: options.tlsPort,
    ocspResponderURL: '',
    externalAccountBindingRequired: false,
    ...(options.validitySeconds !== undefined && { certificateValidityPeriod: options.validitySeconds }),
  }
  writeFileSync(path('config.json'), JSON.stringify({ pebble: settings }))
  const child = Bun.spawn(['pebble', '-strict', '-config', path('config.json'), '-dnsserver', options.dnsServer], {
    cwd: folder,
    env: {
      PEBBLE_VA_NOSLEEP: '1',
      PEBBLE_WFE_NONCEREJECT: String(options.rejectedNoncesPercent ?? 20),
      PEBBLE_AUTHZREUSE: '0',
    },
    stdout: Bun.file(path('log')),
    stderr: Bun.file(path('errors')),
  })
  const log = () =>
    ['log', 'errors'].map((name) => (existsSync(path(name)) ? readFileSync(path(name), 'utf8') : '')).join('\n')
  const dispose = async () => {
    child.kill()
    await child.exited
    rmSync(folder, { recursive: true, force: true })
  }
  const read = (url: string) => fetch(url, { tls: { ca: authority.pem } })
  const directoryUrl = `https://127.0.0.1:${port}/dir`
  try {
    await eventually(async () => {
      if (child.exitCode !== null) throw new Error('Pebble ended')
      return (await read(directoryUrl).catch(() => undefined))?.ok
    })
  } catch (error) {
    const output = log()
    await dispose()
    throw new Error(`Pebble did not start.\n${output}`, { cause: error })
  }
  return {
    directoryUrl,
    caFile: path('ca.pem'),
    rootPem: async () => (await read(`https://127.0.0.1:${managementPort}/roots/0`)).text(),
    log,
    [Symbol.asyncDispose]: dispose,
  }
}
