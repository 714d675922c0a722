/**
 * @module The server side of Dovecot's authentication protocol, as far as Postfix uses it, so that Postfix checks
 * passwords without another package. Supports only PLAIN.
 * https://doc.dovecot.org/latest/core/config/auth/auth_protocol.html
 */

export interface DovecotAuth extends AsyncDisposable {
  readonly port: number
}

/** Starts on a free port of 127.0.0.1; `users` is user -> password. */
export async function startDovecotAuth(users: Readonly<Record<string, string>>): Promise<DovecotAuth> {
  const server = Bun.listen<{ input: string }>({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      open(socket) {
        socket.data = { input: '' }
        socket.write(
          'VERSION\t1\t2\nMECH\tPLAIN\tplaintext\nSPID\t1\nCUID\t1\nCOOKIE\t00112233445566778899aabbccddeeff\nDONE\n',
        )
      },
      data(socket, chunk) {
        socket.data.input += chunk.toString()
        const lines = socket.data.input.split('\n')
        socket.data.input = lines.pop() ?? ''
        for (const line of lines) {
          const answer = replyTo(line, users)
          if (answer) socket.write(answer)
        }
      },
    },
  })
  return {
    port: server.port,
    async [Symbol.asyncDispose]() {
      server.stop(true)
    },
  }
}

/**
 * `AUTH <id> PLAIN ... resp=<base64>`, or `CONT <id> <base64>` when the response comes separately; other lines need no
 * answer.
 */
function replyTo(line: string, users: Readonly<Record<string, string>>): string | undefined {
  const [command, id, ...rest] = line.split('\t')
  if (command !== 'AUTH' && command !== 'CONT') return undefined
  const response = command === 'CONT' ? rest[0] : rest.find((field) => field.startsWith('resp='))?.slice('resp='.length)
  if (response === undefined) return `CONT\t${id}\t\n`
  // RFC 4616: authorisation identity, user, password.
  const [, user = '', password] = Buffer.from(response, 'base64').toString('utf8').split('\0')
  return password !== undefined && users[user] === password
    ? `OK\t${id}\tuser=${user}\n`
    : `FAIL\t${id}\tuser=${user}\n`
}
