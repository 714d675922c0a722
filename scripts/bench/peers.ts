/**
 * @module Compares Tassis with Postfix and OpenDKIM: each is started on empty data, takes the same messages over the same
 * connections and delivers them to the same sink. Then Tassis sends while other mail waits. See `scripts/bench-peers`.
 */
import { createSecureContext } from 'node:tls'
import { openApp } from '#app/create.ts'
import { runLoad } from '#bench/load.ts'
import { RECEIVER_DOMAIN, SENDER_DOMAIN } from '#bench/mails.ts'
import type { Benchmark, Figure, Values } from '#bench/measure.ts'
import { startService } from '#bench/processes.ts'
import { type Receiver, startReceiver } from '#bench/receiver.ts'
import { CONNECTIONS, createPoster } from '#bench/sending.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import type { Config } from '#platform/settings/config.ts'
import { startOpenDkim } from '#test/support/opendkim.ts'
import { startPostfix } from '#test/support/postfix.ts'
import { readCpuMs } from './cpu.ts'
import { createReceiverCertificate } from './hooks.ts'
import { createMail, createMessageBuilder, openSmtp } from './smtp-load.ts'
import { storeEmails } from './stored-emails.ts'

const MANY_DOMAINS = 10_000

interface Peer extends AsyncDisposable {
  /** Processes whose time counts, with their children. */
  readonly pids: readonly number[]
  /** Resolves when so many more messages are durably accepted. */
  submit(messages: number): Promise<unknown>
}

const FIGURES: readonly Figure[] = [
  ['sent_per_second', 'emails/s', 0],
  ['cpu_ms', 'CPU ms per email', 2],
]

interface PeerOptions {
  readonly messages: number
  /** Messages before them, which are not measured. */
  readonly warmUp: number
  /** Numbers of emails that wait and are due. */
  readonly queued: readonly number[]
}

export const createPeerBenchmarks = (options: PeerOptions): Benchmark[] => [
  ...[false, true].map((hasStartTls): Benchmark => {
    const measure = (start: (receiver: Receiver) => Promise<Peer>) => measurePeer(options, hasStartTls, start)
    const name = hasStartTls ? 'peers_tls' : 'peers'
    return {
      name,
      description: `${options.messages} messages after ${options.warmUp}, ${hasStartTls ? 'with' : 'without'} TLS.`,
      figures: FIGURES,
      async prepare({ create, onCopy }) {
        const { dataDir, key } = await create(name)
        return [
          { title: 'Postfix with OpenDKIM', run: () => measure(startPostfixPeer) },
          {
            title: 'Tassis',
            run: () => onCopy(dataDir, (copy) => measure((receiver) => startTassis(copy, key, receiver))),
          },
        ]
      },
    }
  }),
  ...(options.queued.length > 0 ? [createQueueBenchmark(options)] : []),
]

const createQueueBenchmark = (options: PeerOptions): Benchmark => ({
  name: 'queued',
  description: `Tassis sends ${options.messages} emails while others wait and are due.`,
  figures: FIGURES,
  async prepare({ create, onCopy }) {
    const columns = []
    for (const emails of options.queued)
      for (const domains of [1, MANY_DOMAINS]) {
        const { config, dataDir, key } = await create(`queued-${emails}-${domains}`, storeEmails({ emails }))
        await queueAgain(config, domains)
        const run = () =>
          onCopy(dataDir, (copy) =>
            measurePeer(options, false, (receiver) => startTassis(copy, key, receiver, domains)),
          )
        columns.push({ title: `${emails} to ${domains} domains`, run })
      }
    return columns
  },
})

/**
 * From the first submitted message until as many are at the sink, which may be others that waited. Fails unless each is
 * signed, and encrypted with TLS.
 */
async function measurePeer(
  { messages, warmUp }: PeerOptions,
  hasStartTls: boolean,
  start: (receiver: Receiver) => Promise<Peer>,
): Promise<Values> {
  const secureContext = hasStartTls ? createSecureContext({ ...(await createReceiverCertificate()) }) : undefined
  await using receiver = await startReceiver({ secureContext })
  await using peer = await start(receiver)
  if (warmUp > 0) await peer.submit(warmUp)
  await receiver.waitFor(warmUp)
  const [beforeMs, startedMs] = [readCpuMs(peer.pids), performance.now()]
  await peer.submit(messages)
  const { messages: taken, signed, encrypted } = await receiver.waitFor(messages)
  const seconds = (performance.now() - startedMs) / 1000
  const cpuMs = readCpuMs(peer.pids) - beforeMs
  if (signed !== taken || encrypted !== (hasStartTls ? taken : 0))
    throw new Error(`Of ${taken} messages ${signed} were signed and ${encrypted} encrypted.`)
  return { sent_per_second: taken / seconds, cpu_ms: cpuMs / taken }
}

/** Starts Tassis with its defaults on a data directory. @param domains recipient domains, which take turns */
async function startTassis(dataDir: string, key: string, receiver: Receiver, domains = 1): Promise<Peer> {
  const service = await startService(dataDir, {
    TASSIS_DNS_SERVERS: `127.0.0.1:${receiver.dnsPort}`,
    TASSIS_SMTP_PORT: String(receiver.smtpPort),
  })
  const post = createPoster(service.port, key)
  return {
    pids: [service.pid],
    submit: (emails) => post(emails, { domains }),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }
}

/**
 * Makes the sent emails of a data directory due again, to domains that take turns. Their events and counters stay, since
 * delivery does not read them.
 */
async function queueAgain(config: Config, domains: number): Promise<void> {
  const opened = openApp(config)
  try {
    await opened.app.commit.write(({ db }) => {
      db.run('UPDATE emails SET status = ?, delivered_at = NULL', [statusCode('queued')])
      db.run(`UPDATE recipients SET address = printf('user-%d@d%010d.%s', id, id % ?, ?)`, [domains, RECEIVER_DOMAIN])
      db.run(
        `UPDATE recipients SET status = ?1, attempts = 0, delivery_started_at = NULL, delivered_at = NULL,
           smtp_response = NULL, sending_ip = NULL, next_at = ?2, retry_from = ?2,
           lane = (SELECT account_id FROM emails WHERE emails.id = email_id) || ':' || substr(address, instr(address, '@') + 1)`,
        [statusCode('queued'), opened.app.clock.now()],
      )
    })
  } finally {
    await opened.close()
  }
}

/**
 * Starts Postfix with OpenDKIM as its milter, both with Debian's defaults but for paths, ports and the way to the sink:
 * Postfix asks no DNS. It may use TLS connections again for the next message, which is faster than its default.
 */
async function startPostfixPeer(receiver: Receiver): Promise<Peer> {
  const signer = await startOpenDkim(SENDER_DOMAIN, {
    Canonicalization: 'relaxed/relaxed',
    OversignHeaders: 'From',
    // The addresses of the generator.
    InternalHosts: '127.0.0.0/8',
  })
  const postfix = await startPostfix({
    mailboxes: [],
    relay: { port: receiver.smtpPort },
    settings: {
      myhostname: 'mail.bench.test',
      smtpd_milters: `inet:127.0.0.1:${signer.port}`,
      smtp_tls_connection_reuse: 'yes',
      // Debian's default.
      smtp_tls_session_cache_database: 'btree:$data_directory/smtp_scache',
      minimal_backoff_time: '300s',
      maximal_backoff_time: '4000s',
      queue_run_delay: '300s',
    },
  })
  const build = createMessageBuilder(({ from, to, subject }) => [
    `From: ${from}`,
    `To: ${to}`,
    `Subject: ${subject}`,
    `Date: ${new Date().toUTCString().replace('GMT', '+0000')}`,
  ])
  const target = { open: openSmtp(postfix.port), connections: CONNECTIONS, expected: '250' }
  return {
    pids: [postfix.pid, signer.pid],
    submit: (count) =>
      runLoad(
        target,
        Array.from({ length: count }, (_, number) =>
          createMail(`orders@${SENDER_DOMAIN}`, `user@${RECEIVER_DOMAIN}`, build(number)),
        ),
      ),
    async [Symbol.asyncDispose]() {
      await postfix[Symbol.asyncDispose]()
      await signer[Symbol.asyncDispose]()
    },
  }
}
