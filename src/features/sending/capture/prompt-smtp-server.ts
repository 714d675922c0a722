/**
 * @module smtp-server without its wait for early talkers. It keeps each connection 100 ms before the greeting, to catch senders of spam that do not
 * wait for it; on a loopback listener that only we speak to, that wait protects nothing and delays the first message of each connection.
 */
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { SMTPServer } from 'smtp-server'
import { SMTPConnection, type SMTPConnectionOptions } from 'smtp-server/lib/smtp-connection.js'

/** Greets at once. Not for listeners that strangers reach. */
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

  /** Called above, and once more when the wait that `init` began is over. */
  override connectionReady(next?: () => void): void {
    if (this.#isReady) return
    this.#isReady = true
    super.connectionReady(next)
  }
}
