/**
 * @module Shared by the tests of the SMTP client: options and transactions, of which each test changes one property.
 */
import { systemClock } from '#platform/time/clock.ts'
import type { SmtpClient, SmtpTransaction } from '#protocols/smtp/client.ts'
import { connectSmtp, type SmtpConnectOptions } from '#protocols/smtp/connect.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

export function optionsFor(server: { port: number }, changes: Partial<SmtpConnectOptions> = {}): SmtpConnectOptions {
  return {
    host: 'mx.example.test',
    address: '127.0.0.1',
    port: server.port,
    ehloName: 'out.sender.test',
    clock: systemClock,
    tls: 'never',
    verifyCertificate: false,
    ...changes,
  }
}

/** Opens a session with the server; throws when that fails. */
export async function openSession(
  server: { port: number },
  changes: Partial<SmtpConnectOptions> = {},
): Promise<SmtpClient> {
  const result = await connectSmtp(optionsFor(server, changes))
  if (result.kind !== 'connected') throw new Error(`Not connected: ${JSON.stringify(result)}`)
  return result.client
}

export const helloMessage = Buffer.from('Subject: hello\r\n\r\nHello.\r\n')

export function transaction(changes: Partial<SmtpTransaction> = {}): SmtpTransaction {
  return {
    mailFrom: 'bounce@sender.test',
    rcptTo: 'user@example.test',
    message: [helloMessage],
    smtpUtf8: false,
    eightBit: false,
    beforeBody: () => Promise.resolve(),
    ...changes,
  }
}

/** Waits one tick of the event loop, so that sockets can make progress. */
export const waitOneTick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** A promise that the test resolves or rejects. */
export function deferred(): { promise: Promise<void>; resolve: () => void; reject: (error: unknown) => void } {
  return Promise.withResolvers<void>()
}

/** A manual clock that knows which timers are running. */
export class WatchedClock extends ManualClock {
  /** The delays, in ms, of the timers that have neither fired nor been cancelled. */
  readonly waitsMs: number[] = []

  override after(delayMs: number, run: () => void) {
    let running = true
    const finish = () => {
      if (running) this.waitsMs.splice(this.waitsMs.indexOf(delayMs), 1)
      running = false
    }
    this.waitsMs.push(delayMs)
    const timer = super.after(delayMs, () => {
      finish()
      run()
    })
    return {
      cancel: () => {
        finish()
        timer.cancel()
      },
    }
  }
}
