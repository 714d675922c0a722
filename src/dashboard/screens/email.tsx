import { Page } from '../parts/page.tsx'
export const EmailScreen = () => <Page title="Email">.</Page>
