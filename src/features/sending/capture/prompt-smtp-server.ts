/**
 * @module smtp-server without its delay for early talkers. smtp-server waits 100 ms before each greeting to detect
 * spammers who do not wait for it. On a loopback listener that only this service uses, the wait protects nothing and
 * delays the first message of each connection.
 */
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { SMTPServer } from 'smtp-server'
import { SMTPConnection, type SMTPConnectionOptions } from 'smtp-server/lib/smtp-connection.js'

/** Greets immediately. Not for listeners that remote clients can reach. */
export class PromptSmtpServer extends SMTPServer {
  override connect(socket: Socket | TLSSocket, options?: SMTPConnectionOptions | null): void {
    const connection = new PromptConnection(this, socket, options)
    this.connections.add(connection)
    connection.on('error', (error: Error) => this.emit('error', error))
    connection.init()
  }
}

class PromptConnection extends SMTPConnection {
  #isReady = false

  override init(): void {
    super.init()
    this.connectionReady()
  }

  /** Called by `init` above, and by smtp-server when the delay that `init` started has ended. */
  override connectionReady(next?: () => void): void {
    if (this.#isReady) return
    this.#isReady = true
    super.connectionReady(next)
  }
}
