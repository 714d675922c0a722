/** Fences the copies named by its arguments, one after another, and says so; then waits: the test kills it. */
import { fenceIfCopied } from '#app/fence/instance.ts'
import { openDatabase } from '#platform/db/open.ts'
import { createLog } from '#platform/log/log.ts'

for (const path of process.argv.slice(2)) {
  const db = openDatabase(path)
  fenceIfCopied(db, Date.now(), createLog('silent'))
  db.close()
  process.stdout.write('.')
}
setInterval(() => undefined, 60_000)
