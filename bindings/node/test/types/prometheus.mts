// What TypeScript must accept of the figures for prom-client. It is compiled, not run.
import client, { Registry } from 'prom-client'
import { Cache } from 'larder-cache'
import { collectFigures } from 'larder-cache/prometheus'

const larder = new Cache('shop', { ttl: '5m' })

collectFigures(client, larder)
collectFigures({ ...client, register: new Registry() }, larder, new Cache('mails'))

// @ts-expect-error: the cache is missing
collectFigures(client)
// @ts-expect-error: a registry alone has no classes
collectFigures(new Registry(), larder)
