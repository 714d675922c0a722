/** @module Finds disks that are meant to be mounted and are not. */
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { attempt } from '#platform/attempt.ts'

/** A bind mount may be on the disk of the folder above it. */
const BIND = /\br?bind\b/

/**
 * The mount point at or above an absolute path whose disk is missing, so that the wrong disk would be filled; undefined if
 * there is none. Only /etc/fstab says that a folder is meant to be a mount point.
 */
export function findUnmounted(folder: string, fstab = '/etc/fstab'): string | undefined {
  // Of a link, the target; a path that does not exist yet has none.
  const path = attempt(() => realpathSync(folder)) ?? folder
  if (path === '/') return undefined
  // Not by the list of mounts: the sandbox of a service mounts each folder to which the service may write.
  const isMissing = isInFstab(path, fstab) && readDevice(path) === readDevice(dirname(path))
  return isMissing ? path : findUnmounted(dirname(path), fstab)
}

const readDevice = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.dev

function isInFstab(path: string, fstab: string): boolean {
  if (!existsSync(fstab)) return false
  const entries = readFileSync(fstab, 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/[ \t]+/))
  return entries.some(
    ([device = '#', point = '', , options = '']) =>
      !device.startsWith('#') && !BIND.test(options) && point.startsWith('/') && resolve(unescapeOctal(point)) === path,
  )
}

const unescapeOctal = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)))
