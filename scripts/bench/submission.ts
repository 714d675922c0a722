/** @module Submission: acceptance over SMTP with delivery held. */
import { type LoadResult, runLoad } from '#bench/load.ts'
import { RECEIVER_DOMAIN, SENDER_DOMAIN } from '#bench/mails.ts'
import type { Benchmark, Values } from '#bench/measure.ts'
import { observe, startService } from '#bench/processes.ts'
import { CONNECTIONS, loadFigures, toValues } from '#bench/sending.ts'
import { systemClock } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { createMail, createMessageBuilder, openSmtp } from './smtp-load.ts'

/** @param messages to submit, each time */
export const createSubmissionBenchmark = (messages: number): Benchmark => ({
  name: 'submission',
  description: `${messages} messages submitted over ${CONNECTIONS} connections with TLS, durable before the 250; delivery held.`,
  figures: [...loadFigures('submitted', 'submitted/s'), ['submitted_cpu_ms', '  CPU ms per message', 3]],
  async prepare({ create, onCopy }) {
    const { dataDir, key } = await create('submission')
    return [{ title: 'runs', run: () => onCopy(dataDir, (copy) => runSubmission(copy, key, messages)) }]
  },
})

async function runSubmission(dataDir: string, key: string, messages: number): Promise<Values> {
  const port = await findFreePort()
  await using service = await startService(dataDir, { TASSIS_SUBMISSION_TLS_ADDR: `127.0.0.1:${port}` })
  const sendAt = new Date(systemClock.now() + days(1)).toISOString()
  const submit = () => submitEmails(port, key, sendAt, messages)
  await submit()
  const submitted = await observe(service.pid, submit)
  return { ...toValues('submitted', submitted.value), submitted_cpu_ms: submitted.cpuMs / messages }
}

function submitEmails(port: number, key: string, sendAt: string, count: number): Promise<LoadResult> {
  const build = createMessageBuilder(({ from, to, subject }) => [
    `From: ${from}`,
    `To: ${to}`,
    `Subject: ${subject}`,
    `X-Tassis-Send-At: ${sendAt}`,
  ])
  const messages = Array.from({ length: count }, (_, number) =>
    createMail(`orders@${SENDER_DOMAIN}`, `user@${RECEIVER_DOMAIN}`, build(number)),
  )
  return runLoad({ open: openSmtp(port, key), connections: CONNECTIONS, expected: '250' }, messages)
}
