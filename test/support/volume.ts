/**
 * @module A replicated volume for tests: an ext4 file system on a loop device that can lose its power, and machines that
 * mount it one after the other. Needs root.
 */
import { dlopen, FFIType, ptr } from 'bun:ffi'
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { formatUuid, newUuid } from '#platform/ids.ts'

export interface Volume extends Disposable {
  /** Where a machine sees its files. */
  readonly path: string
  /**
   * From now on nothing can be written or read: what was not synced is lost, as when the power fails or a cloud takes the
   * volume away. Synchronous, so that a test knows what had happened before.
   */
  cut(): void
  /** Gives the next machine the replica: what was on the disk at the cut. The machine before may still hold the old one. */
  attach(): void
}

/** EXT4_IOC_SHUTDOWN: _IOR('X', 125, __u32), and its flag that drops the journal of what was not synced. */
const SHUTDOWN = 0x8004587dn
const NO_LOG_FLUSH = new Uint32Array([2])
const SIZE = '512M'
/** The journal is committed by syncs alone, not after some seconds. */
const MOUNT_OPTIONS = 'loop,noatime,commit=600'

const run = (...command: string[]): void => {
  const { success, stderr } = Bun.spawnSync(command)
  if (!success) throw new Error(`${command.join(' ')}: ${stderr}`)
}

/** Why this user cannot create a volume, or this kernel; undefined: both can. */
export function findVolumeObstacle(): string | undefined {
  try {
    createVolume()[Symbol.dispose]()
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

export function createVolume(): Volume {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-volume-'))
  let replica = 0
  const toImage = () => join(folder, `image-${replica}`)
  let path = ''
  const attach = () => {
    path = join(folder, `disk-${replica}`)
    mkdirSync(path)
    run('mount', '-o', MOUNT_OPTIONS, toImage(), path)
  }
  const detach = () => void Bun.spawnSync(['umount', '--lazy', path])
  const remove = () => {
    detach()
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    run('truncate', '--size', SIZE, toImage())
    run('mkfs.ext4', '-q', '-F', toImage())
    attach()
  } catch (error) {
    remove()
    throw error
  }
  const { symbols } = dlopen('libc.so.6', {
    ioctl: { args: [FFIType.i32, FFIType.u64, FFIType.ptr], returns: FFIType.i32 },
  })
  return {
    get path() {
      return path
    },
    cut() {
      const file = openSync(path, 'r')
      const result = symbols.ioctl(file, SHUTDOWN, ptr(NO_LOG_FLUSH))
      closeSync(file)
      if (result !== 0) throw new Error('the file system was not shut down')
    },
    attach() {
      detach()
      const image = toImage()
      replica++
      run('cp', '--sparse=always', image, toImage())
      attach()
    },
    [Symbol.dispose]: remove,
  }
}

/** A command that runs another one as on a machine of its own: with another machine-id and boot_id. */
export function createMachine(folder: string, name: string): readonly string[] {
  const bind = (file: string, content: string) => {
    const source = join(folder, `${name}-${file.replaceAll('/', '-')}`)
    writeFileSync(source, `${content}\n`)
    return `mount --bind ${source} ${file}`
  }
  const script = [
    bind('/etc/machine-id', formatUuid(newUuid()).replaceAll('-', '')),
    bind('/proc/sys/kernel/random/boot_id', formatUuid(newUuid())),
    'exec "$0" "$@"',
  ]
  return ['unshare', '--mount', 'sh', '-c', script.join(' && ')]
}
