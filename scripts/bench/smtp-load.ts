/** @module Load over SMTP: messages over persistent connections, each after the replies to the one before. */
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { type Conversation, type Exchange, startConversation } from '#bench/load.ts'
import { type BenchMail, createFiller, createMailPatterns } from '#bench/mails.ts'

export const createMail = (mailFrom: string, rcptTo: string, message: string | Uint8Array): Exchange => [
  `MAIL FROM:<${mailFrom}>\r\n`,
  `RCPT TO:<${rcptTo}>\r\n`,
  'DATA\r\n',
  Buffer.concat([Buffer.from(message), Buffer.from('\r\n.\r\n')]),
]

/**
 * Each connection comes from an address of its own where the loopback network has more than one: the service limits the
 * unprocessed messages of a network, and one network alone would reach that limit.
 */
const HAS_LOOPBACK_NETWORK = process.platform === 'linux'

/** Connects to an SMTP server on this machine. @param key API key, sent over TLS from the first octet */
export const openSmtp =
  (port: number, key?: string) =>
  async (index: number): Promise<Conversation> => {
    const localAddress = HAS_LOOPBACK_NETWORK ? `127.0.0.${2 + (index % 250)}` : '127.0.0.1'
    const plain = connect({ host: '127.0.0.1', port, localAddress, noDelay: true })
    const socket = key === undefined ? plain : connectTls({ socket: plain, rejectUnauthorized: false })
    const write = startConversation(socket, measureReply)
    // The greeting answers nothing.
    await write('')
    await write('EHLO client.bench.test\r\n')
    if (key !== undefined) await write(`AUTH PLAIN ${Buffer.from(`\0bench\0${key}`).toString('base64')}\r\n`)
    return { write, end: () => void socket.end('QUIT\r\n') }
  }

/** The last line of a reply has a space after its code (RFC 5321 §4.2.1). */
const LAST_LINE = /^\d{3}(?: .*)?\r\n/m

function measureReply(text: string): number {
  const match = LAST_LINE.exec(text)
  return match ? match.index + match[0].length : 0
}

/**
 * Returns a function that builds messages of the emails by number, as clients do: ASCII, and no line begins with a dot.
 * @param listFields the header, without what a MIME part has
 */
export function createMessageBuilder(
  listFields: (pattern: BenchMail) => readonly string[],
): (number: number, attachment?: string) => string {
  const fill = createFiller(
    createMailPatterns().map((pattern) =>
      [
        ...listFields(pattern),
        'MIME-Version: 1.0',
        'Content-Type: multipart/mixed; boundary="mixed"',
        '',
        '--mixed',
        'Content-Type: multipart/alternative; boundary="alternative"',
        '',
        '--alternative',
        'Content-Type: text/plain; charset=utf-8',
        '',
        pattern.text_body,
        '--alternative',
        'Content-Type: text/html; charset=utf-8',
        '',
        pattern.html_body,
        '--alternative--',
        '',
      ]
        .join('\n')
        .replaceAll('\n', '\r\n'),
    ),
  )
  return (number, attachment) =>
    `${fill(number)}${attachment === undefined ? '' : `--mixed\r\nContent-Type: application/pdf; name="order.pdf"\r\nContent-Disposition: attachment; filename="order.pdf"\r\nContent-Transfer-Encoding: base64\r\n\r\n${attachment}\r\n`}--mixed--\r\n`
}
