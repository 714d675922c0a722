/**
 * @module A private Postfix for tests: Debian's binaries with their own configuration, queue and mail folder below the
 * temporary folder, listening on a free port of 127.0.0.1. Stores accepted mail in Maildirs, or relays it to another
 * port of 127.0.0.1 only; leaves the system's own Postfix alone.
 */
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findFreePort } from '#test/support/free-port.ts'
import { type DovecotAuth, startDovecotAuth } from './dovecot-auth.ts'

export interface PostfixOptions {
  /** Addresses with a mailbox. Postfix accepts mail for their domains; other users there get `550 5.1.1`. */
  readonly mailboxes: readonly string[]
  /** Recipients that get `450 4.2.0`, as with greylisting. */
  readonly greylisted?: readonly string[]
  /** STARTTLS with a self-signed certificate, or TLS from the first octet; default `starttls`. */
  readonly tls?: 'starttls' | 'implicit' | 'none'
  /** Default: Postfix's own, 10 MB. */
  readonly messageSizeLimitBytes?: number
  /**
   * Makes it a relay: mail to addresses without a mailbox goes to this port of 127.0.0.1, to some addresses to other
   * ports. Any client that can connect may relay.
   */
  readonly relay?: { readonly port: number; readonly portOf?: Readonly<Record<string, number>> }
  /** User -> password: sending then requires AUTH, which is offered over TLS only. */
  readonly users?: Readonly<Record<string, string>>
  /** Address of the loopback network; default 127.0.0.1. */
  readonly address?: string
  /** A port that is free at the address; default: any. */
  readonly port?: number
  /** Settings of main.cf that replace those made here. */
  readonly settings?: Readonly<Record<string, string>>
}

export interface Postfix extends AsyncDisposable {
  readonly port: number
  /** Of its master, whose children are all other processes. */
  readonly pid: number
  /**
   * Deliveries to a mailbox so far, oldest first, with CRLF; Postfix has added Return-Path, X-Original-To, Delivered-To
   * and Received.
   */
  messages(mailbox: string): Buffer[]
  /** Postfix's log. */
  log(): string
  /** Ends its processes; its mail stays until it is disposed of. */
  stop(): Promise<void>
}

const SBIN = '/usr/lib/postfix/sbin'
const START_TRIES = 3

/**
 * Whether tests with Postfix can run: it needs root, since it starts its parts under several users. Logs the reason
 * once if not, unless the environment requires the tests (`CI` or `REQUIRE_POSTFIX` is `true`): then they run, and fail
 * without it.
 */
export function isPostfixAvailable(): boolean {
  if (process.env['CI'] === 'true' || process.env['REQUIRE_POSTFIX'] === 'true') return true
  const missing = !existsSync(join(SBIN, 'master'))
    ? 'the package postfix is not installed'
    : process.getuid?.() !== 0
      ? 'only root can start it'
      : undefined
  if (missing !== undefined) console.warn(`Tests with Postfix are skipped: ${missing}`)
  return missing === undefined
}

/** Starts an instance and resolves when it is ready. Throws with Postfix's log when it does not start. */
export async function startPostfix(options: PostfixOptions): Promise<Postfix> {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-postfix-'))
  const auth = options.users && (await startDovecotAuth(options.users))
  const discard = async () => {
    await auth?.[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    prepareFolder(folder, options, auth)
    const { port, pid, stop } = await startMaster(folder, options)
    return {
      port,
      pid,
      messages: (mailbox) => readMaildir(join(folder, 'mail', maildirOf(mailbox), 'new')),
      log: () => logOf(folder),
      stop,
      async [Symbol.asyncDispose]() {
        await stop()
        await discard()
      },
    }
  } catch (error) {
    const log = logOf(folder)
    await discard()
    throw new Error(`Postfix did not start.\n${log}`, { cause: error })
  }
}

const logOf = (folder: string): string =>
  existsSync(join(folder, 'log')) ? readFileSync(join(folder, 'log'), 'utf8') : ''

const maildirOf = (mailbox: string): string => mailbox.split('@').reverse().join('/')

function readMaildir(path: string): Buffer[] {
  if (!existsSync(path)) return []
  return readdirSync(path)
    .sort((a, b) => deliveryTimeOf(a) - deliveryTimeOf(b))
    .map((name) => Buffer.from(readFileSync(join(path, name), 'latin1').replaceAll('\n', '\r\n'), 'latin1'))
}

/** The time in microseconds in the name of a file: `seconds.V<device>I<inode>M<microseconds>.host`. */
function deliveryTimeOf(name: string): number {
  const [, seconds, microseconds] = /^(\d+)\.V\w+?I\w+?M(\d+)\./.exec(name) ?? []
  return Number(seconds) * 1_000_000 + Number(microseconds)
}

function prepareFolder(folder: string, options: PostfixOptions, auth: DovecotAuth | undefined): void {
  // Postfix's unprivileged processes must have access.
  chmodSync(folder, 0o711)
  for (const name of ['etc', 'spool', 'data', 'mail']) mkdirSync(join(folder, name))
  const postfix = Number(run(['id', '-u', 'postfix']))
  chownSync(join(folder, 'data'), postfix, 0)
  // Creates what `postfix check` would, which reads the machine's own configuration, and that may not exist.
  for (const name of SPOOL_FOLDERS) {
    const path = join(folder, 'spool', name)
    mkdirSync(path, { mode: name === 'public' ? 0o711 : 0o700 })
    chownSync(path, postfix, 0)
  }
  mkdirSync(join(folder, 'spool', 'pid'))
  chownSync(join(folder, 'mail'), NOBODY, NOBODY)
  const etc = join(folder, 'etc')
  run(
    [
      'openssl',
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-days',
      '2',
      '-batch',
    ].concat([
      '-subj',
      '/CN=mx.postfix.test',
      '-addext',
      'subjectAltName=DNS:mx.postfix.test',
      '-keyout',
      join(etc, 'key.pem'),
      '-out',
      join(etc, 'cert.pem'),
    ]),
  )
  const listed = [...options.mailboxes, ...(options.greylisted ?? [])]
  writeFileSync(join(etc, 'mailboxes'), listed.map((mailbox) => `${mailbox} ${maildirOf(mailbox)}/\n`).join(''))
  writeFileSync(
    join(etc, 'recipients'),
    (options.greylisted ?? []).map((address) => `${address} 450 4.2.0 Greylisted\n`).join(''),
  )
  writeFileSync(
    join(etc, 'transport'),
    Object.entries(options.relay?.portOf ?? {})
      .map(([address, port]) => `${address} smtp:[127.0.0.1]:${port}\n`)
      .join(''),
  )
  const settings = { ...mainSettings(folder, options, auth), ...options.settings }
  writeFileSync(
    join(etc, 'main.cf'),
    Object.entries(settings)
      .map(([name, value]) => `${name} = ${value}\n`)
      .join(''),
  )
  // Postfix waits two seconds until a file that it reads is no longer new.
  for (const name of readdirSync(etc)) utimesSync(join(etc, name), 0, 0)
  writeFileSync(join(folder, 'log'), '')
}

const NOBODY = 65_534

const SPOOL_FOLDERS = [
  'active',
  'bounce',
  'corrupt',
  'defer',
  'deferred',
  'flush',
  'hold',
  'incoming',
  'maildrop',
  'private',
  'public',
  'saved',
  'trace',
]

function mainSettings(folder: string, options: PostfixOptions, auth: DovecotAuth | undefined): Record<string, string> {
  const domains = new Set(
    [...options.mailboxes, ...(options.greylisted ?? [])].map((mailbox) => mailbox.slice(mailbox.indexOf('@') + 1)),
  )
  const tls = options.tls ?? 'starttls'
  const etc = join(folder, 'etc')
  return {
    compatibility_level: '3.6',
    queue_directory: join(folder, 'spool'),
    data_directory: join(folder, 'data'),
    command_directory: '/usr/sbin',
    daemon_directory: SBIN,
    maillog_file: join(folder, 'log'),
    maillog_file_prefixes: tmpdir(),
    inet_interfaces: '127.0.0.1',
    inet_protocols: 'ipv4',
    myhostname: 'mx.postfix.test',
    mydestination: '',
    mynetworks: options.relay ? '127.0.0.0/8' : '',
    alias_maps: '',
    // Without a relay its own bounces end here: nothing leaves.
    default_transport: options.relay ? `smtp:[127.0.0.1]:${options.relay.port}` : 'discard',
    ...(options.relay && {
      transport_maps: `texthash:${join(etc, 'transport')}`,
      smtp_tls_security_level: 'may',
      // Deferred mail is retried soon, since a test waits for it.
      minimal_backoff_time: '1s',
      maximal_backoff_time: '2s',
      queue_run_delay: '1s',
    }),
    smtp_dns_support_level: 'disabled',
    smtpd_peername_lookup: 'no',
    virtual_mailbox_domains: [...domains].join(' '),
    virtual_mailbox_base: join(folder, 'mail'),
    virtual_mailbox_maps: `texthash:${join(etc, 'mailboxes')}`,
    virtual_uid_maps: `static:${NOBODY}`,
    virtual_gid_maps: `static:${NOBODY}`,
    smtpd_recipient_restrictions: [
      ...(auth ? ['permit_sasl_authenticated', 'reject'] : []),
      ...(options.relay ? ['permit_mynetworks'] : []),
      'reject_unauth_destination',
      `check_recipient_access texthash:${join(etc, 'recipients')}`,
    ].join(', '),
    smtpd_tls_security_level: tls === 'none' ? 'none' : 'may',
    smtpd_tls_wrappermode: tls === 'implicit' ? 'yes' : 'no',
    smtpd_tls_cert_file: join(etc, 'cert.pem'),
    smtpd_tls_key_file: join(etc, 'key.pem'),
    smtpd_tls_received_header: 'yes',
    smtpd_tls_loglevel: '1',
    ...(options.messageSizeLimitBytes !== undefined && { message_size_limit: String(options.messageSizeLimitBytes) }),
    ...(auth && {
      smtpd_sasl_auth_enable: 'yes',
      smtpd_sasl_type: 'dovecot',
      smtpd_sasl_path: `inet:127.0.0.1:${auth.port}`,
      smtpd_sasl_authenticated_header: 'yes',
      smtpd_tls_auth_only: 'yes',
    }),
  }
}

/** Services of a receiving Postfix: name, type, private, unprivileged, chroot, wakeup, max processes, command. */
const masterServices = (endpoint: string): string =>
  `${endpoint} inet n - n - 50 smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
proxymap unix - - n - - proxymap
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
smtp unix - - n - - smtp
scache unix - - n - 1 scache
tlsproxy unix - - n - 0 tlsproxy
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
`

interface Master {
  readonly port: number
  readonly pid: number
  stop(): Promise<void>
}

/** Another process may take the free port before Postfix does: then another port is tried. */
async function startMaster(
  folder: string,
  { address = '127.0.0.1', port: fixedPort }: PostfixOptions,
): Promise<Master> {
  const etc = join(folder, 'etc')
  for (let tries = 1; ; tries++) {
    const port = fixedPort ?? (await findFreePort())
    writeFileSync(join(etc, 'master.cf'), masterServices(`${address}:${port}`))
    utimesSync(join(etc, 'master.cf'), 0, 0)
    // A separate session: the master ends by signalling its process group.
    const master = Bun.spawn([join(SBIN, 'master'), '-c', etc, '-d'], {
      detached: true,
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'pipe',
    })
    if (await isAnswering(address, port, master)) {
      return {
        port,
        pid: master.pid,
        async stop() {
          master.kill('SIGTERM')
          await master.exited
        },
      }
    }
    master.kill('SIGTERM')
    await master.exited
    const errorOutput = await new Response(master.stderr).text()
    appendFileSync(join(folder, 'log'), errorOutput)
    if (tries === START_TRIES) throw new Error(`The master ended with ${master.exitCode}: ${errorOutput}`)
  }
}

/** True once the port sends a greeting; false when the master has ended or after a minute. */
async function isAnswering(address: string, port: number, master: Bun.Subprocess): Promise<boolean> {
  const until = performance.now() + 60_000
  while (performance.now() < until && master.exitCode === null && master.signalCode === null) {
    if (await hasGreeting(address, port)) return true
    await Bun.sleep(20)
  }
  return false
}

/**
 * With implicit TLS there is no greeting before the handshake: an open connection is enough, since only Postfix listens
 * there.
 */
function hasGreeting(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    Bun.connect({
      hostname: address,
      port,
      socket: {
        open(socket) {
          socket.end()
          resolve(true)
        },
        data: () => undefined,
        connectError: () => resolve(false),
        error: () => resolve(false),
      },
    }).catch(() => resolve(false))
  })
}

function run(command: string[]): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command)
  if (exitCode !== 0) throw new Error(`${command.join(' ')} ended with ${exitCode}: ${stderr.toString()}`)
  return stdout.toString()
}
