/**
 * @module Runs retention in a separate process, at a time that the test sets, which kills itself in the middle of a
 * transaction: `child.ts NOW WRITES`. Configured by `TASSIS_*`.
 */
import { openApp } from '#app/create.ts'
import { loadConfig } from '#app/settings.ts'
import { runRetention } from '#features/lifecycle/retention/run.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const [, , now, lastWrite] = process.argv
const opened = openApp(loadConfig(process.env).config, { clock: new ManualClock(Number(now)) })
const { commit } = opened.app
const write = commit.writeFromReserve.bind(commit)
let writes = 0
commit.writeFromReserve = (run) =>
  write((tx) => {
    const value = run(tx)
    if (++writes === Number(lastWrite)) process.kill(process.pid, 'SIGKILL')
    return value
  })
await runRetention(opened.app)
await opened.close()
