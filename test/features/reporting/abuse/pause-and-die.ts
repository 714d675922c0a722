/**
 * @module A process that pauses an account, or mails its owner about a pause, and is killed immediately: `bun
 * pause-and-die.ts <data directory> pause|mail`. Started by pause.test.ts.
 */
import { noticeKey } from '#features/reporting/abuse/notices.ts'
import { pauseAccount } from '#features/reporting/abuse/pause.ts'
import { sendSystemMail } from '#features/sending/system-mail/send.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createTestAccount, createTestApp } from '#test/support/app.ts'

const [dataDir = '', what] = process.argv.slice(2)
const { app } = await createTestApp({ dataDir })
if (what === 'pause') {
  const actor = await createTestAccount(app)
  await createDomain(app, actor, 'sender.test')
  app.db.run('UPDATE domains SET verified_at = 1')
  await app.commit.write((tx) => pauseAccount(app, tx, actor, { source: 'admin', reason: 'The operator looks at it.' }))
} else {
  const to = 'owner@tassis.test'
  await sendSystemMail(app, {
    to,
    subject: 'Sent before',
    text: 'Sent before.',
    idempotencyKey: noticeKey(1, to),
    about: [],
  })
}
process.kill(process.pid, 'SIGKILL')
