-- select_products: what the catalogue knows of these SKUs.
SELECT sku, title, category, cost_usd, image_urls, brand, model, gtin, weight_grams, description
FROM products WHERE sku = ANY (%(skus)s::text[]);

-- create_staging: where an import is collected; gone with its transaction.
CREATE TEMPORARY TABLE staged_products (LIKE products INCLUDING DEFAULTS) ON COMMIT DROP;

-- copy_staging: the import's rows.
COPY staged_products (sku, title, category, cost_usd, image_urls, brand, model, gtin, weight_grams, description)
FROM STDIN;

-- upsert_staged: take the import over, in key order so that two imports do not block each other; rows that are the
-- same are left alone.
INSERT INTO products AS p (sku, title, category, cost_usd, image_urls, brand, model, gtin, weight_grams, description)
SELECT sku, title, category, cost_usd, image_urls, brand, model, gtin, weight_grams, description FROM staged_products
ORDER BY sku
ON CONFLICT (sku) DO UPDATE SET title = EXCLUDED.title, category = EXCLUDED.category, cost_usd = EXCLUDED.cost_usd,
    image_urls = EXCLUDED.image_urls, brand = EXCLUDED.brand, model = EXCLUDED.model, gtin = EXCLUDED.gtin,
    weight_grams = EXCLUDED.weight_grams, description = EXCLUDED.description, updated_at = EXCLUDED.updated_at
WHERE (p.title, p.category, p.cost_usd, p.image_urls, p.brand, p.model, p.gtin, p.weight_grams, p.description)
    IS DISTINCT FROM (EXCLUDED.title, EXCLUDED.category, EXCLUDED.cost_usd, EXCLUDED.image_urls, EXCLUDED.brand,
        EXCLUDED.model, EXCLUDED.gtin, EXCLUDED.weight_grams, EXCLUDED.description)
RETURNING (xmax = 0) AS inserted;

-- count_products: how many there are.
SELECT count(*) FROM products;

-- select_predictions: categories already suggested for these titles.
SELECT title, category_id, category_name FROM category_predictions
WHERE site_id = %(site_id)s AND title = ANY (%(titles)s::text[]) AND predicted_at > now() - interval '30 days';

-- upsert_predictions: remember what the marketplace suggested.
INSERT INTO category_predictions (site_id, title, category_id, category_name)
SELECT %(site_id)s, title, category_id, category_name
FROM unnest(%(titles)s::text[], %(category_ids)s::text[], %(category_names)s::text[])
    AS p (title, category_id, category_name)
ORDER BY title
ON CONFLICT (site_id, title) DO UPDATE SET category_id = EXCLUDED.category_id,
    category_name = EXCLUDED.category_name, predicted_at = EXCLUDED.predicted_at;
