/** @module What is used of libmime, which has no types of its own. */
declare module 'libmime' {
  const libmime: {
    /** The type of a file with this extension; `application/octet-stream` when it is not known. */
    detectMimeType(extension: string): string
    /** Joins the lines of format=flowed (RFC 3676). */
    decodeFlowed(text: string, delSp: boolean): string
  }
  export default libmime
}

declare module 'libmime/lib/charset.js' {
  const charset: {
    /** Through iconv-lite; a name that it does not know is read as UTF-8. */
    decode(bytes: Uint8Array, charset: string): string
    /** The canonical form of a name: `win-1251` becomes `windows-1251`. */
    normalizeCharset(name: string): string
  }
  export default charset
}
