/**
 * @module Runs the SMTP listener for the main thread. Its Worker speaks with remote clients, so that they take no time
 * from the event loop of HTTP and delivery. A dead Worker is replaced on the same port; clients without a reply send
 * again. Decides nothing itself; no client gets a 250 before `receive` has stored its message.
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { CompleteMessage, Destination, ListenerHandlers, Rejection } from '#features/receiving/received/message.ts'
import { isStorageFailure } from '#platform/disk/storage-errors.ts'
import type { Log } from '#platform/log/log.ts'
import { createListenError } from '#platform/net/listen-error.ts'
import { countDescriptors } from '#platform/process/descriptors.ts'
import { startWorker } from '#platform/process/workers.ts'
import { type Config, ConfigError } from '#platform/settings/config.ts'
import { type Clock, type Timer, yieldToEventLoop } from '#platform/time/clock.ts'
import { KiB, seconds } from '#platform/units.ts'
import { REPLIES } from './commands.ts'
import * as protocol from './protocol.ts'
import { type CertificateConfig, openCertificate } from './tls-certificate.ts'

/** An address to listen on, and the setting that names it. */
export interface ConfiguredEndpoint extends protocol.Endpoint {
  readonly setting: string
}

/** The limits of port 25. */
export const getInboundLimits = (
  config: Pick<Config, 'maxBodyBytes' | 'inboundConnectionsPerIp' | 'inboundMessagesPerMinute'>,
): protocol.TrafficLimits => ({
  maxMessageBytes: config.maxBodyBytes,
  maxRecipients: 100,
  maxConnections: 500,
  maxConnectionsPerNetwork: config.inboundConnectionsPerIp,
  maxMessagesPerMinute: config.inboundMessagesPerMinute,
  maxBytesPerHour: config.inboundMessagesPerMinute * 60 * AVERAGE_MESSAGE_BYTES,
})

export interface ListenerOptions {
  readonly endpoints: readonly ConfiguredEndpoint[]
  /** Name in the greeting and in the self-signed certificate. */
  readonly hostname: string
  readonly config: CertificateConfig & Pick<Config, 'minFreeDisk'>
  readonly traffic: protocol.TrafficLimits
  /** For large arriving messages: used by the listener only, on the disk of the content store. */
  readonly spoolFolder: string
  /** Called at RCPT, so that a client does not transfer a message for which there is no disk space. */
  readonly isDiskLow?: () => Promise<boolean>
  /** Other limits, for tests that cannot wait. */
  readonly limits?: Partial<protocol.ListenerLimits>
  /** Replaced by tests that end the Worker. */
  readonly startWorker?: () => Worker
}

export interface Listener {
  /** In the order of the options, with the ports that they have. */
  readonly endpoints: readonly protocol.Endpoint[]
  /** Open sessions, as the Worker reported them at the last check: every 10 s. */
  readonly sessions: number
  /** Gives messages in progress at most `graceMs`, then ends all sessions. Resolves when every `receive` has ended. */
  close(graceMs: number): Promise<void>
}

/** Of the messages of a network over an hour. */
const AVERAGE_MESSAGE_BYTES = 60 * KiB
const RESTART_DELAY_MS = seconds(1)
const CHECK_INTERVAL_MS = seconds(10)
/** A Worker is dead after this many silent checks in a row; a long pause of the process counts as one check. */
const MAX_SILENT_CHECKS = 3
const STOP_TIMEOUT_MS = seconds(1)

const stopping: Rejection = { code: 451, text: '4.3.2 Service shutting down; try again later' }

/**
 * Starts to listen, for mail that comes in or for mail submission. Rejects with a `ConfigError`, one sentence for the operator, when the address or certificate is
 * unusable.
 */
export async function startListener(
  options: ListenerOptions,
  handlers: ListenerHandlers | protocol.SubmissionHandlers,
  deps: { readonly clock: Clock; readonly log: Log },
): Promise<Listener> {
  const listener = new InboundListener(options, handlers, deps)
  await listener.start()
  return listener
}

class InboundListener implements Listener {
  endpoints: readonly protocol.Endpoint[]
  sessions = 0
  readonly #options: ListenerOptions
  readonly #handlers: ListenerHandlers | protocol.SubmissionHandlers
  readonly #clock: Clock
  readonly #log: Log
  #certificate: Awaited<ReturnType<typeof openCertificate>> | undefined
  #worker: Worker | undefined
  #generation = 0
  #restart: Timer | undefined
  #checks: Timer | undefined
  #state: 'open' | 'draining' | 'stopping' | 'closed' = 'open'
  /** Files from the Worker that the content store has not adopted yet. */
  readonly #handedOverFiles = new Set<string>()
  readonly #receiving = new Set<Promise<void>>()
  #onWorkerEnding: ((reported: 'drained' | 'stopped' | 'died') => void) | undefined

  constructor(
    options: ListenerOptions,
    handlers: ListenerHandlers | protocol.SubmissionHandlers,
    { clock, log }: { clock: Clock; log: Log },
  ) {
    this.#options = options
    this.#handlers = handlers
    this.#clock = clock
    this.#log = log
    this.endpoints = options.endpoints
  }

  async start(): Promise<void> {
    mkdirSync(this.#options.spoolFolder, { recursive: true, mode: 0o700 })
    this.#removeOrphans()
    this.#certificate = await openCertificate({
      config: this.#options.config,
      hostname: this.#options.hostname,
      clock: this.#clock,
      log: this.#log,
      onChange: (certificate) => this.#post({ type: 'certificate', certificate }),
    })
    try {
      this.endpoints = await this.#startWorker()
    } catch (error) {
      this.#certificate.close()
      throw error
    }
  }

  async close(graceMs: number): Promise<void> {
    if (this.#state !== 'open') return
    this.#certificate?.close()
    this.#restart?.cancel()
    this.#checks?.cancel()
    this.#state = 'draining'
    this.#post({ type: 'drain' })
    if (graceMs > 0) await this.#waitForWorker('drained', graceMs)
    this.#state = 'stopping'
    await Promise.all(this.#receiving)
    this.#post({ type: 'stop' })
    await this.#waitForWorker('stopped', STOP_TIMEOUT_MS)
    this.#state = 'closed'
    this.#worker?.terminate()
    this.#worker = undefined
    this.#removeOrphans()
  }

  /** Resolves when the Worker has reported this or died, at the latest after this time. */
  #waitForWorker(report: 'drained' | 'stopped', maxMs: number): Promise<void> {
    if (!this.#worker) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = this.#clock.after(maxMs, resolve)
      this.#onWorkerEnding = (reported) => {
        if (reported !== report && reported !== 'died') return
        timer.cancel()
        resolve()
      }
    })
  }

  #post(message: protocol.ToListener): void {
    this.#worker?.postMessage(message)
  }

  /** Resolves when the Worker listens; a later failure ends the Worker. */
  #startWorker(): Promise<readonly protocol.Endpoint[]> {
    return new Promise((resolve, reject) => {
      const worker = (this.#options.startWorker ?? (() => startWorker('inbound')))()
      this.#worker = worker
      let isDead = false
      const onDied = (reason: string) => {
        if (isDead || this.#state === 'closed') return
        isDead = true
        worker.terminate()
        this.#worker = undefined
        reject(new Error(`the SMTP listener ended: ${reason}`))
        this.#onWorkerDied(reason)
      }
      let silentChecks = 0
      const isWatched = (): boolean => !isDead && this.#worker === worker && this.#state === 'open'
      const check = (): void => {
        if (!isWatched()) return
        if (++silentChecks > MAX_SILENT_CHECKS) {
          onDied(`silent for ${(MAX_SILENT_CHECKS * CHECK_INTERVAL_MS) / 1000} s`)
          return
        }
        worker.postMessage({ type: 'ping' } satisfies protocol.ToListener)
        // The next check is scheduled after pending messages were read, because a clock that jumps over several checks
        // must not count as silence.
        void yieldToEventLoop().then(() => {
          if (isWatched()) this.#checks = this.#clock.after(CHECK_INTERVAL_MS, check)
        })
      }
      worker.onerror = (event) => onDied(event.message)
      worker.addEventListener('close', () => onDied('closed'))
      worker.onmessage = ({ data }: MessageEvent<protocol.FromListener>) => {
        if (isDead) return
        silentChecks = 0
        if (data.type === 'listening') resolve(data.endpoints)
        else if (data.type === 'failed') {
          isDead = true
          worker.terminate()
          this.#worker = undefined
          reject(this.#createListenError(data))
        } else this.#onMessage(worker, data)
      }
      this.#post({ type: 'start', settings: this.#settings() })
      this.#checks?.cancel()
      this.#checks = this.#clock.after(CHECK_INTERVAL_MS, check)
    })
  }

  #settings(): protocol.ListenerSettings {
    const { config, traffic } = this.#options
    if (!this.#certificate) throw new Error('the listener has no certificate')
    return {
      endpoints: this.endpoints.map(({ host, port, isTlsImplicit }) => ({ host, port, isTlsImplicit })),
      isSubmission: 'submit' in this.#handlers,
      hostname: this.#options.hostname,
      spoolFolder: this.#options.spoolFolder,
      minFreeBytes: config.minFreeDisk,
      filePrefix: String(++this.#generation),
      certificate: this.#certificate.current,
      ...traffic,
      // An eighth of the descriptors, as this is one of two listeners.
      maxConnections: Math.min(traffic.maxConnections, Math.floor(countDescriptors().limit / 8)),
      limits: { ...protocol.LISTENER_LIMITS, ...this.#options.limits },
      logsDebug: this.#log.isLevelEnabled('debug'),
    }
  }

  #createListenError({ endpoint, code, reason }: Extract<protocol.FromListener, { type: 'failed' }>): ConfigError {
    const { setting = '' } = this.#options.endpoints[endpoint] ?? {}
    return createListenError(setting, this.endpoints[endpoint] ?? { host: '', port: 0 }, code || reason)
  }

  #onWorkerDied(reason: string): void {
    this.#log.error({ reason }, 'SMTP listener died; restarting')
    this.#onWorkerEnding?.('died')
    if (this.#state === 'open') this.#scheduleRestart()
  }

  #scheduleRestart(): void {
    this.#restart = this.#clock.after(RESTART_DELAY_MS, () => {
      if (this.#state !== 'open') return
      this.#removeOrphans()
      this.#startWorker().then(
        () => this.#log.info('SMTP listener restarted'),
        (error: unknown) => {
          // `#onWorkerDied` handled the death; only a Worker that could not listen is retried here.
          if (!(error instanceof ConfigError)) return
          this.#log.error({ err: error }, 'SMTP listener cannot listen; retrying')
          if (this.#state === 'open') this.#scheduleRestart()
        },
      )
    })
  }

  #onMessage(worker: Worker, message: protocol.FromListener): void {
    switch (message.type) {
      case 'decide':
      case 'receive':
      case 'logIn':
      case 'submit': {
        const answered = this.#answer(message)
          .then((answer) => {
            // The Worker's successor uses the same ids for other messages.
            if (worker === this.#worker)
              worker.postMessage({ type: 'answer', id: message.id, answer } satisfies protocol.ToListener)
          })
          .finally(() => this.#receiving.delete(answered))
        if (message.type === 'receive' || message.type === 'submit') this.#receiving.add(answered)
        return
      }
      case 'log':
        this.#log[message.level]({ detail: message.detail }, `SMTP listener: ${message.event}`)
        return
      case 'pong':
        this.sessions = message.sessions
        return
      case 'drained':
      case 'stopped':
        this.#onWorkerEnding?.(message.type)
        return
    }
  }

  /** Never rejects. */
  async #answer(question: protocol.Question): Promise<Destination | protocol.Login | Rejection | null> {
    const handlers = this.#handlers
    try {
      if (question.type === 'decide' && 'decide' in handlers)
        return (await this.#options.isDiskLow?.())
          ? REPLIES.noSpace
          : handlers.decide(question.address, question.sourceIp)
      if (question.type === 'logIn' && 'logIn' in handlers)
        return await handlers.logIn(question.credentials, question.sourceIp)
      if (question.type === 'receive' && 'receive' in handlers)
        return await this.#take(question.message, () => handlers.receive(question.message).then(() => null))
      if (question.type === 'submit' && 'submit' in handlers)
        return await this.#take(question.message, () => handlers.submit(question.message))
    } catch (error) {
      this.#log.warn({ err: error }, question.type === 'logIn' ? 'login failed' : 'recipient decision failed')
    }
    return REPLIES.notStored
  }

  /** Has a complete message stored, and then deletes its file; the answer null: it is on disk. Never rejects. */
  async #take<T>(
    { content }: CompleteMessage | protocol.SubmittedMessage,
    store: () => Promise<T>,
  ): Promise<T | Rejection> {
    const path = content.kind === 'file' ? content.path : undefined
    if (path !== undefined) this.#handedOverFiles.add(path)
    try {
      if (this.#state === 'stopping') return stopping
      return await store()
    } catch (error) {
      this.#log.warn({ err: error }, 'message not stored; its sender will retry')
      // A full disk, and a locked or read-only database.
      return isStorageFailure(error) ? REPLIES.noSpace : REPLIES.notStored
    } finally {
      // If the content store adopted the file, it has moved it, and there is nothing to delete.
      if (path !== undefined) {
        await rm(path, { force: true }).catch(() => {})
        this.#handedOverFiles.delete(path)
      }
    }
  }

  /** Deletes files of an earlier process or Worker. */
  #removeOrphans(): void {
    for (const name of readdirSync(this.#options.spoolFolder)) {
      const path = join(this.#options.spoolFolder, name)
      if (!this.#handedOverFiles.has(path)) rmSync(path, { recursive: true, force: true })
    }
  }
}
