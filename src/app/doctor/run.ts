/** @module The list of checks of `tassis doctor`, and how they run: at the same time, each with a time limit. */
import { seconds } from '#platform/units.ts'
import type { Finding } from '../status-routes.ts'
import { checkCertificates } from './checks/certificates.ts'
import { checkDisk, checkFileLimit, checkMemory, checkOwners } from './checks/machine.ts'
import { checkAddresses, checkHostname, checkPublicUrl, checkReverseDns } from './checks/names.ts'
import { checkOutgoingPort, checkPorts, checkPrivileges, checkRelay } from './checks/network.ts'
import { checkBlockLists, checkClock, checkResolver } from './checks/resolver.ts'
import {
  checkBackups,
  checkDeliveryAlerts,
  checkDomains,
  checkOperatorMail,
  checkQueue,
  checkReceived,
  checkRestored,
  checkService,
  checkWebhooks,
} from './checks/state.ts'
import { type Check, type DoctorContext, type Found, skipped } from './context.ts'

/** All checks by name, in the order in which they are shown. Names are public: metrics and notices use them. */
export const CHECKS = {
  service: checkService,
  hostname: checkHostname,
  addresses: checkAddresses,
  reverse_dns: checkReverseDns,
  public_url: checkPublicUrl,
  outgoing_port: checkOutgoingPort,
  relay: checkRelay,
  ports: checkPorts,
  privileges: checkPrivileges,
  resolver: checkResolver,
  block_lists: checkBlockLists,
  clock: checkClock,
  certificates: checkCertificates,
  owners: checkOwners,
  disk: checkDisk,
  memory: checkMemory,
  open_files: checkFileLimit,
  domains: checkDomains,
  webhooks: checkWebhooks,
  queue: checkQueue,
  received: checkReceived,
  backups: checkBackups,
  restored: checkRestored,
  delivery_alerts: checkDeliveryAlerts,
  operator_mail: checkOperatorMail,
} as const satisfies Readonly<Record<string, Check>>

/** Of one check; all together then take hardly longer, because they run at the same time. */
const CHECK_TIMEOUT_MS = seconds(12)

/** Runs all checks. A check that fails itself, or does not end in time, is skipped with the reason. */
export async function runChecks(context: DoctorContext): Promise<Finding[]> {
  const found = await Promise.all(
    Object.entries<Check>(CHECKS).map(async ([name, check]) =>
      [await runInTime(context, check)].flat().map((finding) => ({ check: name, ...finding })),
    ),
  )
  return found.flat()
}

function runInTime(context: DoctorContext, check: Check): Promise<Found> {
  const { clock, signal } = context
  return new Promise((resolve) => {
    const timer = clock.after(CHECK_TIMEOUT_MS, () =>
      resolve(skipped(`The check did not end within ${CHECK_TIMEOUT_MS / 1000} s.`)),
    )
    const abort = () => resolve(skipped('The checks were ended early.'))
    signal.addEventListener('abort', abort)
    const run = async () => check(context)
    void run()
      .catch((error: unknown) =>
        skipped(`The check failed: ${error instanceof Error ? error.message : String(error)}.`),
      )
      .then((found) => {
        timer.cancel()
        signal.removeEventListener('abort', abort)
        resolve(found)
      })
  })
}
