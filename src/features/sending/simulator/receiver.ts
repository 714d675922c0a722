/** @module The server of the simulator: receives mail on the loopback address, and does what its mailboxes say. */
import type { App } from '#features/core/app/app.ts'
import { type LocalServer, SmtpReplyError, startLocalServer } from '#features/sending/capture/server.ts'
import { simulatorDomain } from '#features/sending/queue/lanes.ts'
import { seconds } from '#platform/units.ts'
import { findMailbox, formatUnknownMailbox } from './mailboxes.ts'

/** Delay of each reply of `slow`, from RCPT on. */
const SLOW_REPLY_MS = seconds(3)
/** Pairs of sender and recipient whose attempts are counted; when there are more, counting begins again. */
const MAX_PAIRS = 10_000

export async function startSimulator({
  clock,
  config,
  log,
}: Pick<App, 'clock' | 'config' | 'log'>): Promise<LocalServer> {
  const attempts = new Map<string, number>()
  const countAttempt = (pair: string): number => {
    const count = (attempts.get(pair) ?? 0) + 1
    if (attempts.size >= MAX_PAIRS) attempts.clear()
    attempts.set(pair, count)
    return count
  }
  const server: LocalServer = await startLocalServer(log, {
    name: simulatorDomain(config),
    async onRcptTo({ address }, { envelope: { mailFrom } }, done) {
      const found = findMailbox(address)
      if (!found) return done(new SmtpReplyError(550, formatUnknownMailbox(simulatorDomain(config))))
      const { isSlow, reject } = found.mailbox
      const attempt = countAttempt(`${mailFrom === false ? '' : mailFrom.address}\n${address}`)
      if (isSlow) await clock.sleep(SLOW_REPLY_MS)
      const rejection = reject?.(found.enhanced, attempt)
      done(rejection && new SmtpReplyError(...rejection))
    },
    onData(stream, session, done) {
      const mailbox = findMailbox(session.envelope.rcptTo[0]?.address ?? '')?.mailbox
      stream.resume().on('end', async () => {
        if (mailbox?.isSlow) await clock.sleep(SLOW_REPLY_MS)
        if (mailbox?.drops) server.drop(session)
        else done(null, '2.0.0 Simulated: accepted and discarded')
      })
    },
  })
  return server
}
