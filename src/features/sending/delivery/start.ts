/**
 * @module Starts delivery, with the capture server for sandbox mail and delivery mode `capture`, and the simulator.
 */
import type { App } from '#features/core/app/app.ts'
import { startCaptureServer } from '#features/sending/capture/server.ts'
import type { CaptureStore } from '#features/sending/capture/store.ts'
import { findEmailOfRecipient } from '#features/sending/emails/read.ts'
import { startSimulator } from '#features/sending/simulator/receiver.ts'
import { DeliveryScheduler, type SchedulerOptions } from './schedule/scheduler.ts'

export interface RunningDelivery {
  readonly scheduler: DeliveryScheduler
  stop(): Promise<void>
}

export async function startDelivery(
  { app, captures }: { readonly app: App; readonly captures: CaptureStore },
  options: SchedulerOptions = {},
): Promise<RunningDelivery> {
  const capture = await startCaptureServer({
    store: captures,
    keys: app.keys,
    findEmail: (recipientId) => findEmailOfRecipient(app.db, recipientId),
    hostname: app.config.hostname,
    maxMessageBytes: app.config.maxBodyBytes * 2,
    log: app.log,
  })
  const simulator = await startSimulator(app).catch(async (error: unknown) => {
    await capture.close()
    throw error
  })
  const ports = [capture.port, simulator.port]
  for (const port of ports) app.ownPorts.add(port)
  const scheduler = new DeliveryScheduler(app, { capture, simulator }, options)
  const stop = async () => {
    await scheduler.stop()
    await Promise.all([capture.close(), simulator.close()])
  }
  try {
    await scheduler.start()
  } catch (error) {
    for (const port of ports) app.ownPorts.delete(port)
    await stop()
    throw error
  }
  return { scheduler, stop }
}
