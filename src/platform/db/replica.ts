/**
 * @module What a second place for commits has to do, so that they count as durable only when they are there too
 * (`platform/replication`).
 */

/** The second place of one database. */
export interface WalReplica {
  /**
   * Stores what commits have added to the write-ahead log. Resolves once everything up to now is stored; rejects with an
   * AppError when nothing can be stored any more and the process is about to end.
   */
  store(): Promise<void>
  /** Whether everything is stored. */
  readonly isStored: boolean
  /** Stores that the unused middle of pages is to be zeroed in the file itself. */
  scrub(pages: readonly number[]): Promise<void>
  /** Call it after the database was closed. */
  close(): void
}

/** The second place of the files of a data directory. Paths are absolute; changes are stored in the order of the calls. */
export interface Replica {
  /** Whether the directory was known to be at the end of what is stored there when it was opened. */
  readonly isEstablished: boolean
  /** @param path of a database that is open */
  openWal(path: string): WalReplica
  /**
   * Resolves once a file is stored that is about to be written.
   * @param source its content, or a finished file with it
   */
  addFile(path: string, source: string | Uint8Array): Promise<void>
  /** Stores the new content of a small file before any later commit. */
  replaceFile(path: string, content: string): void
  /**
   * Removes files or folders before any later commit. A rejection needs no handler.
   * @param onStored called at the moment from which a crash no longer brings them back here
   */
  removeFiles(paths: readonly string[], onStored?: () => void): Promise<void>
}
