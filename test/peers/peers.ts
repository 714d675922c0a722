/**
 * @module The two services of the comparison. Each is started on empty data, takes the same messages over 20
 * connections and delivers them to the same sink.
 */
import { generateKeyPairSync } from 'node:crypto'
import { chmodSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { LoadJob, LoadResult } from '#bench/load.ts'
import { createMailPatterns, RECEIVER_DOMAIN, SENDER_DOMAIN } from '#bench/mails.ts'
import { type ChildProcess, spawnSelf } from '#bench/processes.ts'
import { LOAD_COMMAND } from '#bench/run.ts'
import { SUBMIT_COMMAND } from '#bench/submission.ts'
import type { SubmitJob } from '#bench/submit.ts'
import { startPostfix } from '#test/support/postfix.ts'
import type { ReceiverPorts } from './receiver.ts'

export const TASSIS = [process.execPath, join(import.meta.dir, '..', '..', 'src', 'main.ts')]
const CONNECTIONS = 20
const MAX_SECONDS = 600
const START_TIMEOUT_MS = 15_000

export interface Peer extends AsyncDisposable {
  /** Processes whose time counts, with their children. */
  readonly pids: readonly number[]
  /** Resolves when so many more messages are durably accepted. */
  submit(messages: number): Promise<void>
}

export interface TassisOptions {
  readonly key: string
  /** Recipient domains that take turns. */
  readonly domains: number
}

/** Starts Tassis with its defaults on a data directory. */
export async function startTassis(dataDir: string, ports: ReceiverPorts, options: TassisOptions): Promise<Peer> {
  const environment = {
    TASSIS_DATA_DIR: dataDir,
    TASSIS_HTTP_ADDR: '127.0.0.1:0',
    TASSIS_HOSTNAME: 'mail.bench.test',
    TASSIS_DNS_SERVERS: `127.0.0.1:${ports.dnsPort}`,
    TASSIS_SMTP_PORT: String(ports.smtpPort),
    TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
    TASSIS_LOG_LEVEL: 'error',
  }
  const service = spawnSelf(['serve'], environment, TASSIS)
  const port = Number(/http:\/\/127\.0\.0\.1:(\d+)/.exec(await service.readLine())?.[1])
  let from = 0
  return {
    pids: [service.pid],
    async submit(emails) {
      const { key, domains } = options
      const job: LoadJob = {
        host: '127.0.0.1',
        port,
        key,
        domains,
        connections: CONNECTIONS,
        from,
        emails,
        seconds: MAX_SECONDS,
        sendAt: null,
      }
      from += emails
      requireAll(emails, await runChild([LOAD_COMMAND, JSON.stringify(job)]))
    },
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }
}

/**
 * Starts Postfix with OpenDKIM as its milter, both with Debian's defaults but for paths, ports and the way to the sink:
 * Postfix asks no DNS. It may use TLS connections again for the next message, which is faster than its default.
 */
export async function startPostfixPeer(ports: ReceiverPorts): Promise<Peer> {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-peers-postfix-'))
  // Postfix's own user connects to the socket.
  chmodSync(folder, 0o711)
  const remove = () => rmSync(folder, { recursive: true, force: true })
  const { process: signer, socket } = await startOpenDkim(folder)
  const postfix = await startPostfix({
    mailboxes: [],
    relay: { port: ports.smtpPort },
    settings: {
      myhostname: 'mail.bench.test',
      smtpd_milters: `unix:${socket}`,
      smtp_tls_connection_reuse: 'yes',
      // Debian's default.
      smtp_tls_session_cache_database: 'btree:$data_directory/smtp_scache',
      minimal_backoff_time: '300s',
      maximal_backoff_time: '4000s',
      queue_run_delay: '300s',
    },
  })
  let from = 0
  return {
    pids: [postfix.pid, signer.pid],
    async submit(messages) {
      const job = writeMessages(folder, postfix.port, from, messages)
      from += messages
      requireAll(messages, await runChild([SUBMIT_COMMAND, job]))
    },
    async [Symbol.asyncDispose]() {
      await postfix[Symbol.asyncDispose]()
      signer.kill('SIGTERM')
      await signer.exited
      remove()
    },
  }
}

async function startOpenDkim(folder: string): Promise<{ process: Bun.Subprocess; socket: string }> {
  const socket = join(folder, 'opendkim.sock')
  const keyFile = join(folder, 'key.pem')
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  writeFileSync(keyFile, privateKey.export({ type: 'pkcs1', format: 'pem' }), { mode: 0o600 })
  const settings = {
    Mode: 's',
    Domain: SENDER_DOMAIN,
    Selector: 'bench',
    KeyFile: keyFile,
    Canonicalization: 'relaxed/relaxed',
    OversignHeaders: 'From',
    Socket: `local:${socket}`,
    UMask: '000',
    // The addresses of the generator.
    InternalHosts: '127.0.0.0/8',
    // The folder is below the temporary one, where others write.
    RequireSafeKeys: 'no',
    Syslog: 'no',
  }
  const config = join(folder, 'opendkim.conf')
  writeFileSync(
    config,
    Object.entries(settings)
      .map(([name, value]) => `${name} ${value}\n`)
      .join(''),
  )
  const process = Bun.spawn(['/usr/sbin/opendkim', '-f', '-x', config], { stdin: 'ignore', stdout: 'ignore' })
  const until = performance.now() + START_TIMEOUT_MS
  while (!existsSync(socket)) {
    if (process.exitCode !== null || performance.now() > until) throw new Error('OpenDKIM did not start.')
    await Bun.sleep(20)
  }
  return { process, socket }
}

/** Writes the messages and the job that submits them; returns the file of the job. */
function writeMessages(folder: string, port: number, from: number, count: number): string {
  const patterns = createMailPatterns()
  const places = [0]
  const messages: Buffer[] = []
  for (let number = from; number < from + count; number++) {
    const pattern = patterns[number % patterns.length]
    if (!pattern) throw new RangeError('There is no mail.')
    const message = Buffer.from(toMessage(pattern).replaceAll('0123456789', String(number).padStart(10, '0')))
    messages.push(message)
    places.push((places.at(-1) ?? 0) + message.length)
  }
  const file = join(folder, 'messages')
  writeFileSync(file, Buffer.concat(messages))
  const job: SubmitJob = {
    port,
    connections: CONNECTIONS,
    mailFrom: `orders@${SENDER_DOMAIN}`,
    rcptTo: `user@${RECEIVER_DOMAIN}`,
    file,
    places,
  }
  const jobFile = join(folder, 'job.json')
  writeFileSync(jobFile, JSON.stringify(job))
  return jobFile
}

/** The message that a client of Postfix composes; ASCII, and no line begins with a dot. */
function toMessage({ from, to, subject, text_body, html_body }: ReturnType<typeof createMailPatterns>[number]): string {
  const boundary = '----=_bench'
  const part = (type: string, body: string) =>
    `--${boundary}\r\nContent-Type: text/${type}; charset=utf-8\r\nContent-Transfer-Encoding: 7bit\r\n\r\n${body.replaceAll('\n', '\r\n')}\r\n`
  return [
    `From: ${from}\r\nTo: ${to}\r\nSubject: ${subject}\r\nMessage-ID: <0123456789@${SENDER_DOMAIN}>\r\n`,
    `Date: ${new Date().toUTCString().replace('GMT', '+0000')}\r\nMIME-Version: 1.0\r\n`,
    `Content-Type: multipart/alternative; boundary="${boundary}"\r\n\r\n`,
    part('plain', text_body),
    part('html', html_body),
    `--${boundary}--`,
  ].join('')
}

async function runChild(args: readonly string[]): Promise<LoadResult> {
  await using child: ChildProcess = spawnSelf(args, {}, TASSIS)
  return JSON.parse(await child.readLine()) as LoadResult
}

function requireAll(messages: number, { accepted, refused }: LoadResult): void {
  if (accepted !== messages) throw new Error(`${refused} of ${messages} messages were refused.`)
}

/** Copies a data directory that no process uses. */
export const copyData = (from: string, to: string): void => cpSync(from, to, { recursive: true })

/** The name of the processor, and whether OpenSSL finds the instructions that make RSA fast. */
export function describeCpu(): { readonly name: string; readonly hasIfma: boolean } {
  const text = readFileSync('/proc/cpuinfo', 'utf8')
  return { name: /^model name\s*: (.*)$/m.exec(text)?.[1]?.trim() ?? 'unknown', hasIfma: /\bavx512ifma\b/.test(text) }
}
