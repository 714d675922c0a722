/**
 * @module A process that pauses an account and is killed immediately: `bun pause-and-die.ts <data directory>`. Started by
 * owner-notices.test.ts.
 */
import { pauseAccount } from '#features/reporting/abuse/pause.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createTestAccount, createTestApp } from '#test/support/app.ts'

const { app } = await createTestApp({ dataDir: process.argv[2] ?? '' })
const actor = await createTestAccount(app)
await createDomain(app, actor, 'sender.test')
app.db.run('UPDATE domains SET verified_at = 1')
await app.commit.write((tx) => pauseAccount(app, tx, actor, { source: 'admin', reason: 'The operator looks at it.' }))
process.kill(process.pid, 'SIGKILL')
