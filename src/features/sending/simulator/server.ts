/** @module The simulator's server: the receiver with the mailboxes of `sim.{hostname}`, on the loopback address. */
import type { App } from '#features/core/app/app.ts'
import { simulatorDomain } from '#features/sending/queue/lanes.ts'
import { reactAsSimulator } from './mailboxes.ts'
import { type Receiver, startReceiver } from './receiver.ts'

/** Listens on a free port. Rejects with the system error. */
export const startSimulator = ({ clock, config }: Pick<App, 'clock' | 'config'>): Promise<Receiver> =>
  startReceiver({ clock, hostname: simulatorDomain(config), react: reactAsSimulator })
